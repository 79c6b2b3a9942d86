package limit

// Refund gives back what a request of cost permits was charged and has not used. It must
// be called at most once for a request. It reports whether anything was given back.
//
// For leaky, instant is the slot that the request has booked. Its place is given back if
// the slot is in the future and no later place is booked. Otherwise the place stays
// booked, because the requests behind it keep their times.
//
// For fixed, sliding, token and gcra, instant is when the request was charged. A window
// gives back nothing when it no longer counts, and token and gcra only what they cannot
// have regained since:
//
//	cost − (now − instant)·rate
//
// because without the request the key may have been full, and would have regained
// nothing. So the key never has more than if the request had not been made. Nothing is
// given back if the rate has changed since. A sliding_log gives back nothing, since the
// entries behind that of the request would have to be rewritten.
func (l *Limit) Refund(now int64, s *State, cost, instant int64) bool {
	if !l.Refunds() || s.tag != l.tag || cost < 1 || cost > l.burst+l.overshoot {
		return false
	}
	var v view
	l.settle(now, s, &v)
	switch a, b := v.a, v.b; l.algorithm {
	case Leaky:
		if v.a <= cost*l.quantum || l.slot(&v, cost) != instant {
			return false
		}
		v.a -= cost * l.quantum
	default:
		if instant > v.at || v.adopted {
			return false
		}
		l.uncharge(&v, cost, instant)
		if v.a == a && v.b == b {
			return false
		}
	}
	s.at, s.a, s.b = v.at, v.a, v.b
	return true
}

// uncharge takes back what was charged at an instant, except for leaky and sliding_log.
func (l *Limit) uncharge(v *view, cost, instant int64) {
	switch {
	case l.algorithm == GCRA, l.algorithm == Token && v.b == 0: // otherwise the rate has changed
		v.a -= min(v.a, drained(cost*l.quantum, v.at-instant, l.gain))
	case l.algorithm == Token:
	case instant >= v.start:
		v.a -= min(v.a, cost)
	case instant >= v.start-l.window && v.a+v.free < l.permits: // sliding, if the previous window still weighs
		v.b -= min(v.b, cost)
	}
}

// FullAt returns the instant, rounded down to 1 µs, at which a key under token or gcra is full if
// nothing more is charged. Until then it regains all that it can.
func (l *Limit) FullAt(now int64, s *State) int64 {
	var v view
	l.settle(now, s, &v)
	at := v.at + quotient(v.a, l.gain)
	if l.algorithm == Token && v.b > 0 { // from b on it owes at most its capacity
		at = min(at, v.b+quotient(l.full, l.gain))
	}
	return at
}

// Refunds reports whether [Limit.Refund] can give anything back.
func (l *Limit) Refunds() bool { return l.algorithm != Off && l.algorithm != SlidingLog }

// OncePerWindow returns a limit of one request per window of l, or for token and leaky in the time in
// which an empty bucket is filled. For token and leaky all results have the same [Kind], so the
// key's state survives a change of the limit.
func (l *Limit) OncePerWindow() Limit {
	if l.rate > 0 {
		return newRated(Token, 1, max(1, l.rate/max(1, l.burst)))
	}
	return newWindowed(Fixed, 1, l.window)
}
