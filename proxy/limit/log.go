package limit

import "sort"

// LogMax is the largest limit of [SlidingLog]. It bounds the entries of a log, 16 bytes
// each: a key takes up to 1 MB.
const LogMax = 1 << 16

// logPerMicro bounds the limit by the window, in permits per microsecond, so that
// the sums of a century stay below 2^53.
const logPerMicro = 2

// A Log records what one key was admitted within one window, oldest first. All that was
// admitted at one instant is one entry. An entry never changes: how many permits it
// covers follows from the next entry.
//
// Owned by its State.
type Log struct {
	ring  []entry // its length is a power of two
	first int
	n     int
}

// An entry says that something was admitted at an instant, and how many permits were
// admitted before.
type entry struct {
	at     int64 // µs since the epoch
	before int64 // permits admitted before it since the log was last empty
}

// entry returns an entry by age; 0 is the oldest.
func (l *Log) entry(i int) entry { return l.ring[(l.first+i)&(len(l.ring)-1)] }

// live returns the number of entries.
func (l *Log) live() int {
	if l == nil {
		return 0
	}
	return l.n
}

// drop removes the oldest entries.
func (l *Log) drop(entries int) {
	l.n -= entries
	l.first = (l.first + entries) & max(0, len(l.ring)-1)
}

func (l *Log) push(e entry) {
	if l.n == len(l.ring) {
		*l = l.copied(max(4, 2*len(l.ring)))
	}
	l.ring[(l.first+l.n)&(len(l.ring)-1)] = e
	l.n++
}

// copied returns a copy with room for that many entries.
func (l *Log) copied(room int) Log {
	c := Log{ring: make([]entry, room), n: l.n}
	for i := range l.n {
		c.ring[i] = l.entry(i)
	}
	return c
}

// find returns the first entry for which holds is true, or the number of entries if there
// is none. holds must be false up to some entry and true from then on. The search starts
// at from, near which the result nearly always is.
func (l *Log) find(from int, holds func(i int) bool) int {
	step := 1
	for from+step < l.n && !holds(from+step-1) {
		from += step
		step *= 2
	}
	return from + sort.Search(min(step, l.n-from), func(i int) bool { return holds(from + i) })
}

// through returns how many permits were admitted up to and including an entry since the
// log was last empty; total is the number of all.
func (l *Log) through(i int, total int64) int64 {
	if i+1 < l.n {
		return l.entry(i + 1).before
	}
	return total
}

// settleLog determines which entries are within the window that ends at now. An entry at
// exactly now − window is not.
func (l *Limit) settleLog(now int64, v *view) {
	if v.tag != l.tag {
		v.State = State{tag: l.tag}
	}
	log := v.rest.log
	v.free = l.permits
	if log.live() == 0 {
		return
	}
	v.first = log.find(0, func(i int) bool { return log.entry(i).at > now-l.window })
	if v.first < log.n {
		v.free -= v.a - log.entry(v.first).before
	}
}

// chargeLog records permits taken at v.at, and drops entries that have left the window.
func (l *Limit) chargeLog(v *view, permits int64) {
	log := v.rest.log
	if log == nil {
		log = new(Log)
		v.rest.log = log
	}
	log.drop(v.first)
	v.first = 0
	if log.n == 0 {
		v.a = 0
	}
	if log.n == 0 || log.entry(log.n-1).at < v.at {
		log.push(entry{v.at, v.a})
	}
	v.a += permits
	v.free -= permits
}

// logFreeAt is freeAt for sliding_log: the instant at which the given number of the
// oldest permits have left the window.
func (l *Limit) logFreeAt(v *view, permits int64) int64 {
	log := v.rest.log
	upTo := log.entry(v.first).before + permits - v.free
	i := log.find(v.first, func(i int) bool { return log.through(i, v.a) >= upTo })
	return log.entry(i).at + l.window
}

// logNewAt is newAt for sliding_log.
func (l *Limit) logNewAt(v *view) int64 {
	if log := v.rest.log; log.live() > v.first {
		return log.entry(log.n-1).at + l.window
	}
	return v.at
}
