package rails

import (
	"math"

	"weir/proxy/limit"
)

const (
	// spanMax is how many seconds of its rate a limit may admit at once.
	spanMax = 60
	// spanPermits may be admitted at once in any case, however slow the limit is: a
	// window must hold at least one permit.
	spanPermits = 10
	second      = 1e6 // in microseconds
)

// span returns how many seconds of its rate a limit admits at once; for leaky the length
// of its queue.
func span(l *limit.Limit) float64 {
	if l.Algorithm() == limit.Off {
		return 0
	}
	return float64(l.Burst()) / l.Rate()
}

// A fit searches for a limit whose rate is within [low, high].
type fit struct {
	low, high float64
	before    float64 // the span of the limit in force, which may stay

	found limit.Config
	rate  float64
	held  float64 // permits that may pass at once, when they are fewer than recommended
}

// most returns how many permits may be admitted at once at a rate.
func (f *fit) most(rate float64) float64 { return max(1, math.Floor(f.span(rate)*rate)) }

// span returns the longest span at a rate.
func (f *fit) span(rate float64) float64 {
	return max(spanMax, spanPermits/rate, f.before*(1+1e-9))
}

// near finds a limit like cfg with the given rate, or as near to it as can be represented
// exactly. It reports whether there is one.
func (f *fit) near(cfg limit.Config, rate float64) bool {
	l, err := limit.New(cfg)
	switch {
	case err != nil:
		return false
	case cfg.Algorithm == limit.Token || cfg.Algorithm == limit.Leaky:
		return l.Rate() == rate && f.try(cfg) || f.bucket(cfg, rate)
	}
	if allowed := f.span(rate); cfg.Algorithm != limit.GCRA && cfg.Window > allowed {
		cfg.Window = math.Floor(allowed*second) / second
		f.held = f.most(rate)
		return f.window(cfg, rate)
	}
	return l.Rate() == rate && f.try(cfg) || f.window(cfg, rate)
}

// hold bounds how much is admitted at once at a rate; for windows by their length.
func (f *fit) hold(cfg *limit.Config, rate float64) {
	most := int64(f.most(rate))
	switch {
	case (cfg.Algorithm == limit.Token || cfg.Algorithm == limit.Leaky) && cfg.Capacity > most:
		cfg.Capacity, f.held = most, float64(most)
	case cfg.Algorithm == limit.GCRA && cfg.Burst > most:
		cfg.Burst, f.held = most, float64(most)
	}
}

// try accepts cfg if it is valid and within the bounds.
func (f *fit) try(cfg limit.Config) bool {
	l, err := limit.New(cfg)
	if err != nil || !(l.Rate() >= f.low && l.Rate() <= f.high) {
		return false
	}
	cfg = l.Config()
	f.hold(&cfg, l.Rate())
	f.found, f.rate = cfg, l.Rate()
	return true
}

// scaled returns what may be admitted at once when the rate changes from asked to rate:
// less for a lower rate, and not more for a higher one.
func scaled(permits int64, asked, rate float64) int64 {
	if rate >= asked {
		return permits
	}
	return int64(max(1, math.Round(float64(permits)*(rate/asked))))
}

// bucket sets the rate of a bucket, with as many decimals as can be represented.
func (f *fit) bucket(cfg limit.Config, rate float64) bool {
	cfg.Capacity = min(scaled(cfg.Capacity, cfg.FillRate, rate), 2*int64(f.most(rate)))
	for scale := 1e6; scale >= 1; scale /= 10 {
		for _, round := range roundings {
			cfg.FillRate = round(rate*scale) / scale
			if f.try(cfg) {
				return true
			}
		}
	}
	return false
}

// window keeps the window and changes the limit. If integers are too coarse for that, it
// changes the window, too.
func (f *fit) window(cfg limit.Config, rate float64) bool {
	span := cfg.Window
	if cfg.Algorithm == limit.GCRA {
		cfg.Burst = scaled(cfg.Burst, float64(cfg.Limit)/span, rate)
	}
	for _, round := range roundings {
		if permits := round(rate * span); permits >= 1 && permits < math.MaxInt64/2 {
			cfg.Limit = int64(permits)
			if f.try(cfg) {
				return true
			}
		}
	}
	cfg.Limit = int64(max(1, math.Round(rate*span)))
	for _, round := range roundings {
		cfg.Window = round(float64(cfg.Limit)/rate*second) / second
		if f.try(cfg) || f.try(cfg.Rounded()) {
			return true
		}
	}
	return false
}

// roundings are tried in this order.
var roundings = [...]func(float64) float64{math.Round, math.Floor, math.Ceil}
