package limit

// Windows are aligned to the epoch: an instant belongs to window ⌊instant/window⌋.

// settleWindow updates the counts of a fixed or sliding view to now, and computes what is
// free.
//
// For sliding, with elapsed as the time since the window began:
//
//	limit − ⌊(previous·(window − elapsed) + current·window) / window⌋
//	= limit − current − ⌊previous·(window − elapsed) / window⌋
func (l *Limit) settleWindow(now int64, v *view) {
	v.start = quotient(now, l.window) * l.window
	switch {
	case v.tag != l.tag:
		v.State = State{tag: l.tag}
	case v.at >= v.start:
	case v.at >= v.start-l.window:
		v.a, v.b = 0, v.a
	default:
		v.a, v.b = 0, 0
	}
	v.free = l.permits - v.a
	if l.algorithm == Sliding && v.b != 0 {
		elapsed := quotient(now-v.start, l.unit)
		v.free -= quotient(v.b*(l.units-elapsed), l.units)
	}
}

// resolution returns the unit in which sliding counts the elapsed time of a window, in
// microseconds. It keeps previous·window below 2^53 for every limit of practical size,
// and depends on the window alone, so that all limits which share a state use the same
// unit. Elapsed time is rounded down, which never admits too many.
func resolution(window int64) int64 {
	switch {
	case window <= 60*second:
		return 1
	case window <= 24*3600*second:
		return second / 1000
	}
	return second
}

// limitMax returns the largest limit that is counted exactly.
func limitMax(a Algorithm, window int64) int64 {
	switch a {
	case Sliding:
		return exactMax / (window / resolution(window))
	case SlidingLog:
		return min(LogMax, logPerMicro*window)
	}
	return exactMax
}

// slidingFreeAt is freeAt for sliding. The weighted count shrinks through this window and
// the next, where the count of this one becomes the previous one's.
func (l *Limit) slidingFreeAt(v *view, permits int64) int64 {
	if free := l.permits - v.a - permits; free >= 0 {
		return v.start + l.fadesTo(v.b, free)
	}
	return v.start + l.window + l.fadesTo(v.a, l.permits-permits)
}

// slidingNewAt is newAt for sliding.
func (l *Limit) slidingNewAt(v *view) int64 {
	if v.a > 0 {
		return v.start + l.window + l.fadesTo(v.a, 0)
	}
	return v.start + l.fadesTo(v.b, 0)
}

// fadesTo returns the earliest elapsed time of a window, in microseconds, at which the
// previous window's count weighs at most weight (≥ 0):
//
//	⌊count·(window − elapsed) / window⌋ ≤ weight
//	⇔ count·(window − elapsed) < (weight + 1)·window
//	⇔ window − elapsed ≤ ⌊((weight + 1)·window − 1) / count⌋
func (l *Limit) fadesTo(count, weight int64) int64 {
	if count <= weight {
		return 0
	}
	return (l.units - quotient((weight+1)*l.units-1, count)) * l.unit
}
