package limit

import (
	"math"
	"time"
)

// A Limit is the numbers of a configuration in exact form. The zero Limit
// belongs to no algorithm and must not be used; [New] and [NewFixed]
// return valid ones.
//
// Immutable after New.
type Limit struct {
	algorithm Algorithm
	permits   int64  // limit; token, leaky: capacity
	burst     int64  // the most permits at once: permits; gcra: burst
	window    int64  // µs; token, leaky: 0
	unit      int64  // sliding: unit in which elapsed time is counted, in µs
	units     int64  // sliding: units in a window
	rate      int64  // token, leaky: millionths of a permit per second
	quantum   int64  // parts in a permit; windows: 1
	gain      int64  // token, gcra, leaky: parts regained per µs
	full      int64  // token, gcra, leaky: capacity in parts, ≤ 2^53
	tag       uint64 // what a State remembers of its limit
	overshoot int64  // soft: permits beyond burst
	grace     int64  // soft: duration in µs
}

// Unlimited is the Limit and Remaining of a [Decision] about [Off]: the largest
// integer that a structured field holds (RFC 9651 section 3.3.1).
const Unlimited = 999_999_999_999_999

// New returns the limit that c describes. The error is that of [Config.Validate], which
// lists all faults.
func New(c Config) (Limit, error) {
	if err := c.Validate(); err != nil {
		return Limit{}, err
	}
	window, _ := micro(c.Window)
	rate, _ := micro(c.FillRate)
	switch c.Algorithm {
	case Token, Leaky:
		return newRated(c.Algorithm, c.Capacity, rate), nil
	case GCRA:
		return newGCRA(c.Limit, window, c.burst()), nil
	case Off:
		return Limit{algorithm: Off, permits: Unlimited, burst: Unlimited, quantum: 1}, nil
	}
	return newWindowed(c.Algorithm, c.Limit, window), nil
}

// NewFixed returns a limit of permits per window, counted from zero in each. A limit of 0
// permits refuses everything.
func NewFixed(permits int64, window time.Duration) (Limit, error) {
	return newCounted(Config{Algorithm: Fixed, Limit: permits, Window: window.Seconds()})
}

// newCounted returns the limit that c describes, which may be one of 0 permits.
func newCounted(c Config) (Limit, error) {
	if c.Limit != 0 {
		return New(c)
	}
	c.Limit = 1
	l, err := New(c)
	l.permits, l.burst = 0, 0
	return l, err
}

// newWindowed, newRated and newGCRA take validated numbers.
func newWindowed(a Algorithm, permits, window int64) Limit {
	unit := resolution(window)
	return Limit{
		algorithm: a,
		permits:   permits,
		burst:     permits,
		window:    window,
		unit:      unit,
		units:     window / unit,
		quantum:   1,
		tag:       tagOf(a, window),
	}
}

func newRated(a Algorithm, capacity, rate int64) Limit {
	quantum, gain := partsOf(rate)
	l := Limit{
		algorithm: a,
		permits:   capacity,
		burst:     capacity,
		rate:      rate,
		quantum:   quantum,
		gain:      gain,
		full:      capacity * quantum,
		tag:       tagOf(a, rate),
	}
	if a == Leaky {
		l.full += quantum // the request that passes at once
	}
	return l
}

func newGCRA(permits, window, burst int64) Limit {
	return Limit{
		algorithm: GCRA,
		permits:   permits,
		burst:     burst,
		window:    window,
		quantum:   window,
		gain:      permits,
		full:      burst * window,
		tag:       tagOf(GCRA, window),
	}
}

// Algorithm returns the algorithm of the limit.
func (l *Limit) Algorithm() Algorithm { return l.algorithm }

// Permits returns the limit, for token and leaky the capacity, for off [Unlimited].
func (l *Limit) Permits() int64 { return l.permits }

// Quota returns the value of [Decision.Limit], which Remaining never exceeds: Permits, or
// Burst if that is larger, which is possible for gcra.
func (l *Limit) Quota() int64 { return max(l.permits, l.burst) }

// Burst returns the most permits that can pass at once, without overshoot: for gcra its
// burst, otherwise Permits.
func (l *Limit) Burst() int64 { return l.burst }

// Overshoot returns by how many permits the limit may be exceeded and for how
// long; 0 when it may not. See [Limit.WithSoft].
func (l *Limit) Overshoot() (permits int64, grace time.Duration) {
	return l.overshoot, time.Duration(l.grace) * time.Microsecond
}

// WindowOrRate returns what a [State] remembers of a limit besides its algorithm: the window in
// microseconds, or the fillRate in millionths of a permit per second.
func (l *Limit) WindowOrRate() int64 { return tagNumber(l.tag) }

// PermitParts returns the number of parts of a permit, and how many of them are regained per µs. For
// windows, where all permits are regained at once, the latter is 0.
func (l *Limit) PermitParts() (permit, gain int64) { return l.quantum, l.gain }

// Window returns the window, or 0 for token, leaky and off.
func (l *Limit) Window() time.Duration { return time.Duration(l.window) * time.Microsecond }

// recovery returns the time, in µs, after which a key that has taken all it may is as new.
func (l *Limit) recovery() int64 {
	switch l.algorithm {
	case Sliding:
		return 2*l.window + l.grace
	case Fixed, SlidingLog:
		return l.window + l.grace
	}
	return (l.full+l.overshoot*l.quantum)/l.gain + 1 + l.grace
}

// Rate returns the permits per second that the limit admits in the long run.
func (l *Limit) Rate() float64 {
	switch l.algorithm {
	case Token, Leaky:
		return float64(l.rate) / second
	case Off:
		return math.Inf(1)
	}
	return float64(l.permits) * second / float64(l.window)
}

// Config returns the configuration that the limit was made from, without unused fields.
func (l *Limit) Config() Config {
	c := Config{Algorithm: l.algorithm}
	switch l.algorithm {
	case Token, Leaky:
		c.Capacity, c.FillRate = l.permits, float64(l.rate)/second
	case GCRA:
		c.Burst = l.burst
		fallthrough
	case Fixed, Sliding, SlidingLog:
		c.Limit, c.Window = l.permits, float64(l.window)/second
	}
	return c
}

// Reserve converts a share of the burst, in thousandths up to 1000, to permits, rounded
// up, for [Charge.Reserve]. For off it is 0.
func (l *Limit) Reserve(thousandths int64) int64 {
	if l.algorithm == Off {
		return 0
	}
	return (l.burst*thousandths + 999) / 1000 // burst ≤ 2^53
}

// tagOf packs what a State must remember of its limit: the algorithm, and the window or
// the fillRate, both below 2^54.
func tagOf(a Algorithm, number int64) uint64 { return uint64(a)<<56 | uint64(number) }

func tagAlgorithm(tag uint64) Algorithm { return Algorithm(tag >> 56) }
func tagNumber(tag uint64) int64        { return int64(tag << 8 >> 8) }
