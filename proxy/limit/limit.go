package limit

import "time"

// A Limit is the numbers of a configuration in exact form. The zero Limit
// belongs to no algorithm and must not be used; [New], [NewFixed], [NewSliding]
// and [NewToken] return valid ones.
//
// Immutable after New.
type Limit struct {
	algorithm Algorithm
	permits   int64  // limit; token: capacity
	window    int64  // µs; token: 0
	unit      int64  // sliding: µs that elapsed time is counted in
	units     int64  // sliding: of them in a window
	rate      int64  // token: millionths of a token per second
	quantum   int64  // token: into how many equal parts a token is divided
	gain      int64  // token: parts that are added per µs
	full      int64  // token: parts of a full bucket, ≤ 2^53
	tag       uint64 // what a State remembers of the limit it was kept under
}

// New returns the limit that c describes. The error is that of
// [Config.Validate], which names all faults.
func New(c Config) (Limit, error) {
	if err := c.Validate(); err != nil {
		return Limit{}, err
	}
	if c.Algorithm == Token {
		rate, _ := micro(c.FillRate)
		return newToken(c.Capacity, rate), nil
	}
	window, _ := micro(c.Window)
	return newWindowed(c.Algorithm, c.Limit, window), nil
}

// NewFixed returns a limit of permits per window, counted anew in each. A limit
// of 0 permits refuses everything.
func NewFixed(permits int64, window time.Duration) (Limit, error) {
	return newCounted(Fixed, permits, window)
}

// NewSliding returns a limit of permits per window where the previous window
// counts by the share of it that still lies within one window of now. A limit of
// 0 permits refuses everything.
func NewSliding(permits int64, window time.Duration) (Limit, error) {
	return newCounted(Sliding, permits, window)
}

// NewToken returns a bucket of capacity tokens that is refilled at fillRate
// tokens per second.
func NewToken(capacity int64, fillRate float64) (Limit, error) {
	return New(Config{Algorithm: Token, Capacity: capacity, FillRate: fillRate})
}

func newCounted(a Algorithm, permits int64, window time.Duration) (Limit, error) {
	c := Config{Algorithm: a, Limit: permits, Window: window.Seconds()}
	if permits != 0 {
		return New(c)
	}
	c.Limit = 1
	l, err := New(c)
	l.permits = 0
	return l, err
}

// newWindowed and newToken take numbers that were validated.
func newWindowed(a Algorithm, permits, window int64) Limit {
	unit := resolution(window)
	return Limit{
		algorithm: a,
		permits:   permits,
		window:    window,
		unit:      unit,
		units:     window / unit,
		tag:       tagOf(a, window),
	}
}

func newToken(capacity, rate int64) Limit {
	quantum, gain := partsOf(rate)
	return Limit{
		algorithm: Token,
		permits:   capacity,
		rate:      rate,
		quantum:   quantum,
		gain:      gain,
		full:      capacity * quantum,
		tag:       tagOf(Token, rate),
	}
}

// Algorithm returns how the limit counts.
func (l *Limit) Algorithm() Algorithm { return l.algorithm }

// Permits returns the limit, or for token the capacity: what
// [Decision.Remaining] is out of.
func (l *Limit) Permits() int64 { return l.permits }

// Window returns the window, or 0 for token.
func (l *Limit) Window() time.Duration { return time.Duration(l.window) * time.Microsecond }

// Rate returns the permits per second that the limit admits in the long run.
func (l *Limit) Rate() float64 {
	if l.algorithm == Token {
		return float64(l.rate) / second
	}
	return float64(l.permits) * second / float64(l.window)
}

// Config returns the configuration that the limit was made from, without the
// fields of other algorithms.
func (l *Limit) Config() Config {
	if l.algorithm == Token {
		return Config{Algorithm: Token, Capacity: l.permits, FillRate: float64(l.rate) / second}
	}
	return Config{Algorithm: l.algorithm, Limit: l.permits, Window: float64(l.window) / second}
}

// CarriesOver reports whether keys keep what they have consumed when l takes the
// place of old: they do when only amounts change, and start afresh when the
// algorithm or the window does. [Limit.Take] acts accordingly by itself, as each
// State remembers what it was kept under.
func (l *Limit) CarriesOver(old *Limit) bool {
	return l.algorithm == old.algorithm && l.window == old.window
}

// tagOf packs what a State must remember of its limit: the algorithm, and the
// window or the fillRate, both below 2^54.
func tagOf(a Algorithm, number int64) uint64 { return uint64(a)<<56 | uint64(number) }

func tagAlgorithm(tag uint64) Algorithm { return Algorithm(tag >> 56) }
func tagNumber(tag uint64) int64        { return int64(tag << 8 >> 8) }
