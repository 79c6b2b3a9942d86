package limit

// An ask with debt is charged even if it is refused, because its cost is known only when the request
// has been served. Then a key has taken more than its limit allows. For token, gcra and leaky it is
// further ahead of an even pace than the limit has room for, and admits nothing until it has
// regained that. For fixed, sliding and sliding_log it is a count above the limit, which counts
// as long as any other. So a key may be charged within any time no more than its limit admits, and
// one cost for each request that was admitted and not yet charged; for fixed and sliding that is so
// within each window.

// Debt returns [Charge.Debt] for a debt of at most so many times the limit, beyond what a key may take at
// once: at least 1, and no more than is counted exactly and regained within 100 years.
func (l *Limit) Debt(times int64) int64 {
	least, most := l.burst+l.overshoot, l.DebtMax()
	if quota := l.Quota(); quota > 0 && times > (most-least)/quota {
		return most
	}
	return max(1, least+times*l.Quota())
}

// DebtMax returns the largest [Charge.Debt].
func (l *Limit) DebtMax() int64 {
	most := l.burstMax()
	if l.gain > 0 {
		most = min(most, l.within(spanMax)/l.quantum)
	}
	return max(most, l.burst+l.overshoot, 1)
}

// owed returns the parts that an ask with debt is charged, and whether they are fewer than it asks
// for.
func (l *Limit) owed(v *view, charge *Charge) (parts int64, clipped bool) {
	left := max(0, v.free+(charge.Debt-l.burst)*l.quantum)
	switch {
	case charge.N == 0:
		return 0, false
	case charge.Cost > left/l.quantum/charge.N:
		return left, true
	}
	return charge.N * charge.Cost * l.quantum, false
}

// recoveryOf is recovery for a key that may owe more than its limit has room for, and regains that at
// the rate at which it was kept.
func (l *Limit) recoveryOf(s *State) int64 {
	own := l.recovery()
	if kept := s.limit(); kept.gain > 0 {
		own = max(own, quotient(s.a, kept.gain)+1+l.grace)
	}
	return own
}
