package limit

// Add gives the key n permits more than it has at now, at most until it is as new,
// and reports whether it could use some. As many more are admitted then, as if so
// many had not been taken: of fixed and sliding those of this window, then those of
// the one before; of sliding_log the oldest. That a soft limit was exceeded is not
// forgotten.
//
// Off needs nothing, and of leaky nothing is given: places that others were told are
// not given twice. The time counts as for [Limit.Take], and a limit that is not the
// one that s was kept under is adopted likewise. A negative n is a mistake of the
// caller, and panics.
func (l *Limit) Add(now int64, s *State, n int64) (changed bool) {
	if n < 0 {
		panic("bug: limit: a negative number of permits to add")
	}
	if l.algorithm == Off || l.algorithm == Leaky || n == 0 {
		return false
	}
	var v view
	l.settle(now, s, &v)
	switch l.algorithm {
	case SlidingLog:
		changed = l.addLog(&v, n)
	case Token:
		more := l.parts(n, l.full-v.a)
		v.a += more
		changed = more > 0
	case GCRA:
		more := l.parts(n, v.a)
		v.a -= more
		changed = more > 0
	default:
		changed = l.addWindow(&v, n)
	}
	if changed || v.adopted {
		*s = v.State
	}
	return changed
}

// parts is what n permits are in parts, at most as many as can be given.
func (l *Limit) parts(n, most int64) int64 {
	if n > quotient(most, l.quantum) {
		return most
	}
	return n * l.quantum
}

// addWindow is Add for fixed and sliding. Of the window before as few are taken away
// as make it weigh so much less: it may then weigh up to weight,
//
//	⌊previous·(window − elapsed) / window⌋ ≤ weight
//	⇔ previous ≤ ⌊((weight + 1)·window − 1) / (window − elapsed)⌋
func (l *Limit) addWindow(v *view, n int64) bool {
	less := min(v.a, n)
	v.a -= less
	n -= less
	if l.algorithm == Fixed || n == 0 {
		return less > 0
	}
	left := l.units - quotient(v.at-v.start, l.unit)
	weighed := quotient(v.b*left, l.units)
	if weighed == 0 {
		return less > 0
	}
	weight := max(0, weighed-n)
	v.b = quotient((weight+1)*l.units-1, left)
	return true
}

// addLog is Add for sliding_log.
func (l *Limit) addLog(v *view, n int64) bool {
	log := v.rest.log
	if log.live() == v.first {
		return false
	}
	base := log.entry(v.first).before
	if n >= v.a-base {
		v.a, v.rest.log = 0, nil
		return true
	}
	log.drop(log.find(v.first, func(i int) bool { return log.through(i, v.a) > base+n }))
	log.ring[log.first].before = base + n
	return true
}
