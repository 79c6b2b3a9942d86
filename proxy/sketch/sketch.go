package sketch

import (
	"fmt"
	"hash/maphash"
	"time"
)

const (
	// KeyBytesMax is how many bytes of a key are kept. Longer keys are distinguished by
	// their length and hash as well.
	KeyBytesMax = 128
	// SizeMax bounds the counters of a sketch.
	SizeMax = 1 << 16
)

// A Sketch counts how often keys are seen, exactly enough for the busiest.
//
// Owned by its loop.
type Sketch struct {
	seed     maphash.Seed
	halfLife time.Duration
	due      time.Time // of the next halving; zero before the first key
	total    int64     // seen, halved like counts

	counters []counter
	keys     []byte  // of all counters, KeyBytesMax each
	order    []int32 // counters, the largest count first; those in use are the first n
	n        int
	groups   []group
	free     []int32 // groups that are not in use
	table    []int32 // index of a counter and 1, by hash; 0: free
	counts   []int64 // scratch of decay
}

// A counter belongs to one key.
type counter struct {
	hash  uint64
	error int64 // what the count may be too large by
	bytes int32 // length of the key
	place int32 // in the order
	group int32
}

// A group is the counters of one count: they lie next to each other in the order.
type group struct {
	count       int64
	first, last int32 // places
}

// New returns a sketch of size counters, 1 to SizeMax, in about 200 bytes each; all
// its memory is allocated here. Sketches that are to be merged have the same seed.
func New(size int, halfLife time.Duration, seed maphash.Seed) *Sketch {
	if size < 1 || size > SizeMax || halfLife <= 0 {
		panic(fmt.Sprintf("bug: sketch: %d counters, half-life %v", size, halfLife))
	}
	slots := 4
	for slots < 2*size {
		slots *= 2
	}
	s := &Sketch{
		seed: seed, halfLife: halfLife,
		counters: make([]counter, size), keys: make([]byte, size*KeyBytesMax), order: make([]int32, size),
		groups: make([]group, 0, size+1), free: make([]int32, 0, size+1), table: make([]int32, slots), counts: make([]int64, 0, size),
	}
	for i := range s.order {
		s.order[i] = int32(i)
		s.counters[i].place = int32(i)
	}
	return s
}

// Size returns the number of counters.
func (s *Sketch) Size() int { return len(s.order) }

// Touch counts that key was seen at now.
func (s *Sketch) Touch(now time.Time, key []byte) {
	if !now.Before(s.due) {
		s.decay(now)
	}
	s.total++
	hash := maphash.Bytes(s.seed, key)
	slot, found := s.find(hash, key)
	switch {
	case found:
		s.raise(s.table[slot] - 1)
	case s.n < len(s.order):
		i := s.order[s.n]
		s.take(i, slot, hash, key)
		s.counters[i].error = 0
		s.append(i)
	default:
		i := s.order[s.n-1]
		s.remove(s.counters[i].hash, i)
		s.take(i, s.freeSlot(hash), hash, key) // the removal may have freed an earlier one
		s.counters[i].error = s.count(i)
		s.raise(i)
	}
}

func (s *Sketch) count(i int32) int64 { return s.groups[s.counters[i].group].count }

// key returns what is kept of a counter's key.
func (s *Sketch) key(i int32) []byte {
	at := int(i) * KeyBytesMax
	return s.keys[at : at+min(int(s.counters[i].bytes), KeyBytesMax)]
}

// take gives a counter to a key, whose slot in the table is known.
func (s *Sketch) take(i int32, slot int, hash uint64, key []byte) {
	c := &s.counters[i]
	c.hash, c.bytes = hash, int32(len(key))
	copy(s.keys[int(i)*KeyBytesMax:][:KeyBytesMax], key)
	s.table[slot] = i + 1
}

// find returns the slot of a key in the table, or the free one where it belongs.
func (s *Sketch) find(hash uint64, key []byte) (slot int, found bool) {
	mask := len(s.table) - 1
	kept := key[:min(len(key), KeyBytesMax)]
	for slot = int(hash) & mask; s.table[slot] != 0; slot = (slot + 1) & mask {
		i := s.table[slot] - 1
		c := &s.counters[i]
		if c.hash == hash && int(c.bytes) == len(key) && string(s.key(i)) == string(kept) {
			return slot, true
		}
	}
	return slot, false
}

// remove takes counter i, whose key has that hash, out of the table, and moves up
// those behind it that would no longer be found (Knuth, volume 3, algorithm 6.4 R).
func (s *Sketch) remove(hash uint64, i int32) {
	mask := len(s.table) - 1
	hole := int(hash) & mask
	for s.table[hole] != i+1 {
		hole = (hole + 1) & mask
	}
	for at := (hole + 1) & mask; s.table[at] != 0; at = (at + 1) & mask {
		home := int(s.counters[s.table[at]-1].hash) & mask
		if (at-home)&mask >= (at-hole)&mask {
			s.table[hole] = s.table[at]
			hole = at
		}
	}
	s.table[hole] = 0
}

// append puts a counter that was not in use at the end of the order, with count 1.
func (s *Sketch) append(i int32) {
	place := int32(s.n)
	s.n++
	if place > 0 {
		if g := s.counters[s.order[place-1]].group; s.groups[g].count == 1 {
			s.groups[g].last = place
			s.counters[i].group = g
			return
		}
	}
	s.counters[i].group = s.newGroup(group{1, place, place})
}

// raise counts one more on a counter.
func (s *Sketch) raise(i int32) {
	c := &s.counters[i]
	g := c.group
	place := s.groups[g].first
	s.swap(c.place, place)
	s.groups[g].first++
	count := s.groups[g].count + 1
	empty := s.groups[g].first > s.groups[g].last
	above := int32(-1)
	if place > 0 {
		above = s.counters[s.order[place-1]].group
	}
	switch {
	case above >= 0 && s.groups[above].count == count:
		s.groups[above].last = place
		c.group = above
		if empty {
			s.free = append(s.free, g)
		}
	case empty:
		s.groups[g] = group{count, place, place}
	default:
		c.group = s.newGroup(group{count, place, place})
	}
}

// swap exchanges the counters of two places.
func (s *Sketch) swap(a, b int32) {
	i, k := s.order[a], s.order[b]
	s.order[a], s.order[b] = k, i
	s.counters[i].place, s.counters[k].place = b, a
}

func (s *Sketch) newGroup(g group) int32 {
	if n := len(s.free); n > 0 {
		at := s.free[n-1]
		s.free = s.free[:n-1]
		s.groups[at] = g
		return at
	}
	s.groups = append(s.groups, g)
	return int32(len(s.groups) - 1)
}

// halvingsMax is how many halvings leave nothing of any count.
const halvingsMax = 63

// decay halves all counts for each half-life that has passed, and gives up the
// counters of which nothing is left. Counts are rounded down and errors up, so that
// what a count may be too large by is never understated; a count is less than 1 too
// small by that, since each halving halves the roundings before as well.
func (s *Sketch) decay(now time.Time) {
	if s.due.IsZero() {
		s.due = now.Add(s.halfLife)
		return
	}
	times := 1 + int64(now.Sub(s.due)/s.halfLife)
	s.due = s.due.Add(time.Duration(times) * s.halfLife)
	halvings := min(times, halvingsMax)
	s.total >>= halvings
	s.counts = s.counts[:0]
	for _, i := range s.order[:s.n] {
		if count := s.count(i) >> halvings; count > 0 { // if not, none that follows is
			s.counts = append(s.counts, count)
		}
	}
	s.n = len(s.counts)
	clear(s.table)
	s.groups, s.free = s.groups[:0], s.free[:0]
	for place, count := range s.counts {
		i := s.order[place]
		c := &s.counters[i]
		c.error = min(-(-c.error >> halvings), count)
		s.table[s.freeSlot(c.hash)] = i + 1
		if last := len(s.groups) - 1; last >= 0 && s.groups[last].count == count {
			s.groups[last].last = int32(place)
		} else {
			s.newGroup(group{count, int32(place), int32(place)})
		}
		c.group = int32(len(s.groups) - 1)
	}
}

// freeSlot returns the slot of the table where a key that it lacks belongs.
func (s *Sketch) freeSlot(hash uint64) int {
	mask := len(s.table) - 1
	slot := int(hash) & mask
	for s.table[slot] != 0 {
		slot = (slot + 1) & mask
	}
	return slot
}
