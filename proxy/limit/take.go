package limit

import (
	"math"
	"time"
)

// A Charge is what is asked of one key: to admit N requests of the same cost.
type Charge struct {
	Cost int64 // permits per request, ≥ 0; 0 only looks
	N    int64 // requests, ≥ 0
	// Reserve is how many permits must be left after a request, ≥ 0: the part of the
	// limit that is kept back from the request's class. See [Limit.Reserve].
	Reserve int64
	// MaxDelay bounds, for leaky, how long a request waits for its slot, in whole
	// microseconds. 0 means the length of the queue.
	MaxDelay time.Duration
	// Debt says, if it is not 0, that refused requests are charged as well, until so many permits are
	// taken in all, and that a look is refused when a request of cost 1 would be. See [Limit.Debt].
	Debt int64
}

// Never is the RetryAfter of a cost that the limit can never admit. With [Charge.Debt] such a cost is charged
// nevertheless, and RetryAfter is the time until a look is admitted instead.
const Never = time.Duration(math.MaxInt64)

// longest is the longest wait that is not Never.
const longest = Never - time.Microsecond

// A Decision says whether the ask was admitted, and how many permits the key has left.
type Decision struct {
	Allowed    bool
	Clipped    bool          // less was charged than asked for, because of Charge.Debt
	Remaining  int64         // whole permits left at now, without overshoot and reserve
	Limit      int64         // the most that Remaining can be, or more; see Limit.Quota
	RetryAfter time.Duration // until this cost is admitted if no other ask takes permits; 0 if Allowed; see Never
	ResetAfter time.Duration // until the key is as new; 0 if it is
	Delay      time.Duration // leaky: until the booked slot, rounded up; 0 if none was booked
	// leaky: instant of the slot by the decider's clock, µs since the epoch, for Refund; 0 without a wait
	Slot int64
}

// TTL returns how long from now a store must keep the key's state: until the key is as
// new, rounded up to milliseconds, plus a margin, so that neither rounding nor a clock
// that steps back a little returns permits early.
func (d Decision) TTL() time.Duration {
	const margin = time.Second
	if d.ResetAfter > longest-2*margin {
		return longest
	}
	return (d.ResetAfter+time.Millisecond-1)/time.Millisecond*time.Millisecond + margin
}

// span returns the time between two instants, from ≤ until.
func span(from, until int64) time.Duration {
	if until-from > int64(longest/time.Microsecond) {
		return longest
	}
	return time.Duration(until-from) * time.Microsecond
}

// A view is a State settled at an instant under a limit, for the duration of a call. It
// is filled in place and copied field by field: whole structs are copied through wide
// registers right after narrow writes, for which the processor waits, and Take then takes
// twice as long (60 against 30 ns).
type view struct {
	State
	adopted bool  // the State was kept at another rate and must be written back
	soft    bool  // overshoot may be used
	start   int64 // fixed, sliding: when the window began
	free    int64 // parts left; negative if the limit was lowered below what was taken, or exceeded, or with debt
	first   int   // sliding_log: the first entry that counts
}

// Take makes n asks of cost permits each at now. The result is exactly that of n calls
// with one ask each: the first granted of them are admitted, and d is the decision about
// the last. A refused ask consumes nothing and leaves s unchanged, unless it has [Charge.Debt]. A cost
// of 0 only looks: without debt it is always admitted.
//
// The limit may differ from the one that s was kept under. If only amounts changed, what
// was consumed stays consumed: fixed, sliding and sliding_log keep their counts, token
// and gcra the permits not yet regained, leaky the instant up to which places are
// booked. So under a smaller limit a key may have nothing left for a while, with token
// for no longer than the old bucket would have taken to fill. Permits are regained at the
// old rate until the first call under the new limit, even if that call is refused. A
// State of another [Kind] counts as one never seen; a caller that needs both keeps a
// State for each.
//
// Take panics if cost or n is negative.
func (l *Limit) Take(now int64, s *State, cost, n int64) (granted int64, d Decision) {
	return l.Decide(now, s, Charge{Cost: cost, N: n})
}

// Decide is [Limit.Take] for a whole [Charge]. Remaining excludes overshoot and reserve. Of an ask with
// debt, Allowed is about the state before the last request, and the numbers about that after it.
func (l *Limit) Decide(now int64, s *State, charge Charge) (granted int64, d Decision) {
	if charge.Cost < 0 || charge.N < 0 || charge.Reserve < 0 {
		panic("bug: limit: a negative cost, reserve or number of asks")
	}
	if l.algorithm == Off {
		return charge.N, l.unlimited()
	}
	var v view
	l.settleBack(now, s, &v)
	granted = l.room(&v, &charge)
	parts := granted * charge.Cost * l.quantum
	if charge.Debt > 0 {
		parts, d.Clipped = l.owed(&v, &charge)
	}
	if parts > 0 {
		l.charge(&v, parts)
		v.adopted = true
		if l.algorithm == Leaky && granted == charge.N {
			l.book(now, &v, charge.Cost, &d)
		}
	}
	if v.adopted {
		s.tag, s.at, s.a, s.b = v.tag, v.at, v.a, v.b
		if s.rest != v.rest {
			s.rest = v.rest
		}
	}
	d.Allowed = granted == charge.N
	l.decide(now, &v, &charge, &d)
	return granted, d
}

// RoomFor returns how many of charge.N requests Take would grant. It changes nothing. A store
// uses it to decide several counters together: the least room of all is what may be taken
// of each.
func (l *Limit) RoomFor(now int64, s *State, charge Charge) int64 {
	if l.algorithm == Off {
		return charge.N
	}
	var v view
	l.settleBack(now, s, &v)
	return l.room(&v, &charge)
}

// Preview returns the decision that one request would get, whatever charge.N is, and takes
// nothing. Therefore it has no Delay.
func (l *Limit) Preview(now int64, s *State, charge Charge) Decision {
	if l.algorithm == Off {
		return l.unlimited()
	}
	var v view
	l.settleBack(now, s, &v)
	charge.N = 1
	d := Decision{Allowed: l.room(&v, &charge) == 1}
	l.decide(now, &v, &charge, &d)
	return d
}

// unlimited returns the decision of off.
func (l *Limit) unlimited() Decision {
	return Decision{Allowed: true, Remaining: Unlimited, Limit: Unlimited}
}

// settle sets v to s as of now, or as of the state's own instant if that is later.
func (l *Limit) settle(now int64, s *State, v *view) {
	v.tag, v.at, v.a, v.b = s.tag, s.at, s.a, s.b
	if l.algorithm == SlidingLog || l.overshoot > 0 {
		v.rest = s.rest
	}
	now = max(now, v.at)
	switch l.algorithm {
	case Token, GCRA, Leaky:
		l.settleQueue(now, v)
	case Fixed, Sliding:
		l.settleWindow(now, v)
	case SlidingLog:
		l.settleLog(now, v)
	default:
		panic("bug: limit: a Limit without an algorithm")
	}
	v.at = now
	if l.overshoot > 0 {
		l.settleSoft(v)
	} else {
		v.rest.began, v.rest.under = 0, 0
	}
}

// settleBack is settle for a clock that may have been set back: a state that is further ahead of
// now than the key takes to recover, with what it owes, counts from now.
func (l *Limit) settleBack(now int64, s *State, v *view) {
	if s.at <= now || s.at-now <= l.recoveryOf(s) {
		l.settle(now, s, v)
		return
	}
	back := s.back(now)
	l.settle(now, &back, v)
	v.adopted = true // also by a refusal: otherwise it would count from each later one
}

// room returns how many requests can be admitted.
func (l *Limit) room(v *view, charge *Charge) int64 {
	if charge.Cost == 0 {
		if charge.Debt == 0 || l.room(v, &Charge{Cost: 1, N: 1, Reserve: charge.Reserve, MaxDelay: charge.MaxDelay}) == 1 {
			return charge.N
		}
		return 0
	}
	most, free := l.burst, v.free
	if v.soft {
		most += l.overshoot
		free += l.overshoot * l.quantum
	}
	if charge.Cost > most-charge.Reserve {
		return 0
	}
	cost := charge.Cost * l.quantum
	free -= charge.Reserve * l.quantum
	if free < cost {
		return 0
	}
	n := charge.N
	if delay := charge.MaxDelay.Microseconds(); l.algorithm == Leaky && delay > 0 {
		n = min(n, l.patient(v, charge.Cost, delay))
	}
	if n <= 1 {
		return n
	}
	return min(n, quotient(free, cost))
}

// charge takes parts. Without debt there must be room for them.
func (l *Limit) charge(v *view, parts int64) {
	if l.algorithm == SlidingLog {
		l.chargeLog(v, parts)
	} else {
		v.a += parts
		v.free -= parts
		if l.algorithm == Token {
			v.b = 0
		}
	}
	if v.free < 0 && l.overshoot > 0 {
		l.exceed(v)
	}
}

// freeAt returns the first instant, not before v.at, at which the given parts are free if
// nothing is taken until then. parts must not exceed the capacity.
func (l *Limit) freeAt(v *view, parts int64) int64 {
	if parts <= v.free {
		return v.at
	}
	switch l.algorithm {
	case Sliding:
		return l.slidingFreeAt(v, parts)
	case SlidingLog:
		return l.logFreeAt(v, parts)
	case Fixed:
		return v.start + l.window
	}
	at := v.at + quotient(parts-v.free-1, l.gain) + 1
	if l.algorithm == Token && v.b > v.at { // instant from which at most the capacity is owed
		at = min(at, v.b+ceiling(max(0, parts), l.gain))
	}
	return at
}

// readyAt returns the first instant at which a request is admitted that is refused now but can be admitted, if
// nothing is taken until then. need is how many permits it needs, with its reserve.
func (l *Limit) readyAt(v *view, charge *Charge, need int64) int64 {
	patient := v.at
	if delay := charge.MaxDelay.Microseconds(); l.algorithm == Leaky && delay > 0 {
		patient = l.patientAt(v, delay)
	}
	hard := int64(math.MaxInt64)
	if need <= l.burst {
		hard = max(patient, l.freeAt(v, need*l.quantum))
	}
	if l.overshoot == 0 {
		return hard
	}
	return l.softReadyAt(v, hard, max(patient, l.freeAt(v, (need-l.overshoot)*l.quantum)))
}

// newAt returns the first instant at which the key is as new if nothing is taken until
// then. It is at most v.at if the key is new already.
func (l *Limit) newAt(v *view) (at int64) {
	switch l.algorithm {
	case Sliding:
		at = l.slidingNewAt(v)
	case SlidingLog:
		at = l.logNewAt(v)
	case Fixed:
		at = v.start
		if v.a != 0 {
			at += l.window
		}
	default:
		at = v.at + ceiling(v.a, l.gain) // likewise under every limit of the kind
	}
	if v.rest.began != 0 {
		at = max(at, v.rest.under+l.grace)
	}
	return at
}

// decide fills in a decision, whose Allowed and Delay are set, for a caller whose clock
// says now.
func (l *Limit) decide(now int64, v *view, charge *Charge, d *Decision) {
	d.Limit = l.Quota()
	if free := v.free; free > 0 {
		if l.quantum > 1 {
			free = quotient(free, l.quantum)
		}
		d.Remaining = max(0, min(free, l.burst)-charge.Reserve) // leaky: the request that passes at once takes no place
	}
	if newAt := l.newAt(v); newAt > v.at {
		d.ResetAfter = span(now, newAt)
	}
	if d.Allowed {
		return
	}
	need, most := max(charge.Cost, 1), l.burst+l.overshoot-charge.Reserve
	if need > most && charge.Debt > 0 {
		need = 1
	}
	if need > most {
		d.RetryAfter = Never
	} else {
		d.RetryAfter = span(now, l.readyAt(v, charge, need+charge.Reserve))
	}
}

// quotient returns ⌊x/y⌋ for 0 ≤ x ≤ 2^53 and 0 < y ≤ 2^53. There the float64 quotient
// never rounds up to the next integer, which is at least 1/y away, while half a unit in
// the last place is less. A script inside Redis computes the same. It makes Take a sixth
// (fixed) to a third (token) faster than integer division.
func quotient(x, y int64) int64 { return int64(float64(x) / float64(y)) }
