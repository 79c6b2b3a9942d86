package limit

import (
	"math"
	"math/bits"

	"weir/internal/data/number"
	"weir/internal/data/strict"
)

// A Soft says that a limit may be exceeded for a while:
//
//	{"overshoot":0.2,"for":30}
//
// allows a key a fifth more than its limit for 30 seconds from the first time that it
// exceeds the limit. Then the limit is hard again, until the key has stayed within it for
// 30 seconds without a break.
//
// It acts as a second, larger limit on the same state: burst plus overshoot, at the same
// rate. A count may exceed the limit in each window of that time. A bucket or queue has
// the overshoot only once, since the excess must come back before anything is admitted
// under the hard limit.
type Soft struct {
	Overshoot float64 `json:"overshoot"` // share of the limit, in thousandths
	For       float64 `json:"for"`       // seconds
}

// overshootMax bounds the overshoot, as a share of the limit.
const overshootMax = 10

// WithSoft returns l with an overshoot. The error is [strict.Faults]. Off is returned
// unchanged.
func (l Limit) WithSoft(s Soft) (Limit, error) {
	thousandths := math.Round(s.Overshoot * 1000)
	grace, exact := micro(s.For)
	var faults strict.Faults
	if !(thousandths >= 1 && thousandths <= overshootMax*1000) || thousandths/1000 != s.Overshoot {
		faults = append(faults, fault("overshoot",
			"must be a share of the limit from 0.001 to %d with at most 3 decimals, is %s", overshootMax,
			number.Decimal(s.Overshoot))...)
	}
	if !exact || grace < 1 || grace > spanMax {
		faults = append(faults, fault("for",
			"must be greater than 0, at most %d seconds (100 years) and whole microseconds (6 decimals), is %s",
			spanMax/second, number.Decimal(s.For))...)
	}
	if len(faults) > 0 {
		return Limit{}, faults
	}
	if l.algorithm == Off {
		return l, nil
	}
	high, low := bits.Mul64(uint64(l.burst), uint64(thousandths))
	permits, _ := bits.Div64(high, low, 1000)
	room := l.burstMax() - l.burst
	switch {
	case permits == 0:
		return Limit{}, fault("overshoot", "must be at least one permit of the %d at once, is %s", l.burst,
			number.Decimal(s.Overshoot))
	case int64(permits) > room:
		return Limit{}, fault("overshoot",
			"must be at most %d permits beyond the %d at once to be counted exactly, is %d", room, l.burst, permits)
	}
	l.overshoot, l.grace = int64(permits), grace
	return l, nil
}

// burstMax returns the most that burst and overshoot may be together. A queue needs room for
// one permit more: for the request that passes at once.
func (l *Limit) burstMax() int64 {
	switch l.algorithm {
	case Token, GCRA:
		return exactMax / l.quantum
	case Leaky:
		return exactMax/l.quantum - 1
	}
	return limitMax(l.algorithm, l.window)
}

// settleSoft determines whether overshoot may be used at v.at.
func (l *Limit) settleSoft(v *view) {
	r := &v.rest
	if r.began != 0 && v.at >= r.under+l.grace {
		r.began, r.under = 0, 0
	}
	v.soft = r.began == 0 || v.at < r.began+l.grace
}

// exceed records that what was just taken exceeds the limit.
func (l *Limit) exceed(v *view) {
	if v.rest.began == 0 {
		v.rest.began = v.at
	}
	v.rest.under = l.freeAt(v, 0)
}

// softReadyAt returns when the given parts become free that are not free now: hard is the
// instant under the hard limit, soft that with overshoot.
func (l *Limit) softReadyAt(v *view, hard, soft int64) int64 {
	if v.rest.began == 0 || soft < v.rest.began+l.grace {
		return soft
	}
	return min(hard, max(soft, v.rest.under+l.grace))
}
