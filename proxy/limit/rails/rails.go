package rails

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"weir/internal/data/number"
	"weir/proxy/limit"
)

// Rails are the guard rails.
type Rails struct {
	Min, Max float64       // of the sustained rate, in permits per second
	Step     float64       // the largest factor between two sustained rates, at least 1
	Dwell    time.Duration // the shortest time between two switches of the algorithm
}

// A LimitInForce is the limit in force, from which a recommendation is judged.
type LimitInForce struct {
	Config   limit.Config // configuration in force; valid
	Switched time.Time    // when its algorithm was put in force; zero: long ago
}

// A Rail is a bound that a recommendation may cross.
type Rail uint8

const (
	Bounds Rail = iota + 1 // Min or Max
	Step
	Dwell
	Burst
)

// String returns the word used in reports.
func (r Rail) String() string {
	return [...]string{"none", "bounds", "step", "dwell", "burst"}[r]
}

// MarshalText returns [Rail.String].
func (r Rail) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// A Result is the decision about a recommendation.
type Result struct {
	Config      limit.Config // to put in force, with the fields of its algorithm alone
	From        float64      // the sustained rate in force; off: infinite
	To          float64      // the sustained rate to put in force
	Recommended float64      // the recommended sustained rate
	// with Bounds or Burst: the bound applied instead of the recommended value, in permits or permits per second
	Cap       float64
	Crossed   []Rail // in the order of the list above
	Unchanged bool   // Config is in force already
}

// Has reports whether the recommendation has crossed a rail.
func (v *Result) Has(r Rail) bool { return slices.Contains(v.Crossed, r) }

// String names the crossed rails in a few words. It is empty if there are none.
func (v *Result) String() string {
	var words []string
	for _, r := range v.Crossed {
		switch r {
		case Bounds:
			words = append(words, fmt.Sprintf("%s/s is out of range", FormatRate(v.Recommended)))
		case Step:
			words = append(words, "too large a step from "+FormatRate(v.From)+"/s")
		case Dwell:
			words = append(words, fmt.Sprintf("too soon for another algorithm than %v", v.Config.Algorithm))
		case Burst:
			words = append(words, "too many at once")
		}
	}
	return strings.Join(words, "; ")
}

// FormatRate formats a rate with at most two decimals.
func FormatRate(rate float64) string {
	if rate >= 10 {
		return number.Decimal(math.Round(rate*10) / 10)
	}
	return number.Decimal(math.Round(rate*100) / 100)
}

// Reasons not to follow a recommendation at all.
var (
	errOff   = errors.New("algorithm: must not be off, which only people may choose")
	errDwell = errors.New("algorithm: off was chosen too recently to be replaced")
	errFit   = errors.New("no limit near it is within the guard rails")
)

// Judge decides about a recommendation at now, by the clock of at.Switched. Computed numbers are
// rounded to what can be represented exactly. The error is a [strict.Faults] if the
// recommendation is not a valid limit. If there is an error, nothing is put in force.
func (r Rails) Judge(now time.Time, at LimitInForce, wanted limit.Config) (Result, error) {
	lim, err := limit.New(wanted.Rounded())
	if err != nil {
		return Result{}, err
	}
	before, err := limit.New(at.Config)
	if err != nil {
		return Result{}, fmt.Errorf("in force: %w", err)
	}
	v := Result{From: before.Rate(), Recommended: lim.Rate()}
	if lim.Config() == before.Config() {
		v.Config, v.To, v.Unchanged = lim.Config(), v.From, true
		return v, nil
	}
	if lim.Algorithm() == limit.Off {
		return Result{}, errOff
	}
	// Off counts as the bound, and so does a limit outside the bounds that was set manually.
	from := r.clamp(v.From)
	low, high := max(r.Min, from/r.Step), min(r.Max, from*r.Step)
	to := r.clamp(v.Recommended)
	if to != v.Recommended {
		v.cross(Bounds)
		v.Cap = to
	}
	if stepped := min(max(to, low), high); stepped != to {
		v.cross(Step)
		to = stepped
	}
	cfg := lim.Config()
	if cfg.Algorithm != before.Algorithm() && now.Before(at.Switched.Add(r.Dwell)) {
		if before.Algorithm() == limit.Off {
			return Result{}, errDwell
		}
		v.cross(Dwell)
		cfg = before.Config()
	}
	f := fit{low: low, high: high, before: span(&before)}
	if !f.near(cfg, to) {
		return Result{}, errFit
	}
	if f.held > 0 {
		v.cross(Burst)
		if !v.Has(Bounds) {
			v.Cap = f.held
		}
	}
	v.Config, v.To = f.found, f.rate
	v.Unchanged = v.Config == before.Config()
	return v, nil
}

func (v *Result) cross(r Rail) { v.Crossed = append(v.Crossed, r) }

func (r Rails) clamp(rate float64) float64 { return min(max(rate, r.Min), r.Max) }
