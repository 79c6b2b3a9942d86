package limit

// Add gives the key n permits more than it has at now, but no more than a new key has,
// and reports whether the key could use any. The effect is as if that many permits had
// not been taken: for fixed and sliding first those of this window, then those of the
// previous one; for sliding_log the oldest. That a soft limit was exceeded is remembered.
//
// Add does nothing for leaky: places given to others are not given twice. The time counts
// as for [Limit.Take]. Add panics if n is negative.
func (s *State) Add(now, n int64) (changed bool) {
	if n < 0 {
		panic("bug: limit: a negative number of permits to add")
	}
	l := s.limit()
	if l.algorithm == Leaky || l.algorithm == 0 || n == 0 {
		return false
	}
	var v view
	l.settle(now, s, &v)
	switch l.algorithm {
	case SlidingLog:
		changed = l.addLog(&v, n)
	case Token, GCRA:
		more := l.parts(n, v.a)
		v.a, v.b = v.a-more, s.b
		changed = more > 0
	default:
		changed = l.addWindow(&v, n)
	}
	if changed {
		v.rest.began, v.rest.under = s.rest.began, s.rest.under
		*s = v.State
	}
	return changed
}

// limit returns one of the limits under which s may be kept, with all that s knows of it.
// It is the zero Limit for a key never seen.
func (s *State) limit() Limit {
	number := tagNumber(s.tag)
	switch a := tagAlgorithm(s.tag); a {
	case Token, Leaky:
		l := newRated(a, 0, number)
		l.full = exactMax // the capacity is not known: do not cap
		return l
	case GCRA:
		return newGCRA(s.b, number, 0)
	case Fixed, Sliding, SlidingLog:
		return newWindowed(a, 0, number)
	}
	return Limit{}
}

// parts converts n permits to parts, at most as many as can be given.
func (l *Limit) parts(n, most int64) int64 {
	if n > quotient(most, l.quantum) {
		return most
	}
	return n * l.quantum
}

// addWindow is Add for fixed and sliding. The count of the previous window is reduced
// just enough for its weight to fall by n. It may then weigh up to weight,
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
