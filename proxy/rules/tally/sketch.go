package tally

import (
	"fmt"
	"hash/maphash"
	"time"
)

const (
	// KeyBytesMax is the number of bytes of a key that are kept. Longer keys are also
	// distinguished by their length and hash.
	KeyBytesMax = 128
	// SketchSizeMax bounds the counters of a sketch.
	SketchSizeMax = 1 << 16
)

// A Sketch finds the busiest keys among any number of them, in constant memory. It is Space-Saving
// (Metwally, Agrawal, El Abbadi: Efficient Computation of Frequent and Top-k Elements in Data
// Streams, ICDT 2005): a counter for each of k keys.
// A key that is not among them replaces the one seen least, and takes over its count. So
// counts are never too small, and the possible excess of each is kept with it. A key with
// more than 1/k of all occurrences is always among them.
//
// Counters are sorted by count, in groups of equal ones. Counting a key swaps it to the
// head of its group and moves it to the next group: a constant number of steps for any k.
//
// All counts are halved once per half-life, so that a sketch shows the recent past:
// what was seen in the running half-life counts whole, in the one before by half,
// and so on.
//
// Each loop has its own sketches. A [Ranking] is a copy of one, and [Merge] combines
// several. A [TopKeys] has the sketches of a loop for all rules.
//
// Owned by its loop.
type Sketch struct {
	seed     maphash.Seed
	halfLife time.Duration
	due      time.Time // of the next halving; zero before the first key
	total    int64     // seen, halved like counts

	counters []counter
	keys     []byte  // of all counters, KeyBytesMax each
	order    []int32 // counters, the largest count first; the first n are in use
	n        int
	groups   []group
	free     []int32 // free groups
	table    []int32 // index of a counter plus 1, by hash; 0: free
	counts   []int64 // scratch of decay
}

// A counter belongs to one key.
type counter struct {
	hash  uint64
	error int64 // by how much the count may be too large
	bytes int32 // length of the key
	place int32 // index in order
	group int32
}

// A group has the counters of one count, which are adjacent in order.
type group struct {
	count       int64
	first, last int32 // places
}

// NewSketch returns a sketch of size counters, 1 to SketchSizeMax, with about 200 bytes each. It allocates
// all memory. Sketches whose rankings are merged must have the same seed.
func NewSketch(size int, halfLife time.Duration, seed maphash.Seed) *Sketch {
	if size < 1 || size > SketchSizeMax || halfLife <= 0 {
		panic(fmt.Sprintf("bug: sketch: %d counters, half-life %v", size, halfLife))
	}
	slots := 4
	for slots < 2*size {
		slots *= 2
	}
	s := &Sketch{
		seed: seed, halfLife: halfLife,
		counters: make([]counter, size), keys: make([]byte, size*KeyBytesMax), order: make([]int32, size),
		groups: make([]group, 0, size+1), free: make([]int32, 0, size+1), table: make([]int32, slots),
		counts: make([]int64, 0, size),
	}
	for i := range s.order {
		s.order[i] = int32(i)
		s.counters[i].place = int32(i)
	}
	return s
}

// Size returns the number of counters.
func (s *Sketch) Size() int { return len(s.order) }

// Observe counts that key was seen at now.
func (s *Sketch) Observe(now time.Time, key []byte) {
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

// key returns the kept part of a counter's key.
func (s *Sketch) key(i int32) []byte {
	at := int(i) * KeyBytesMax
	return s.keys[at : at+min(int(s.counters[i].bytes), KeyBytesMax)]
}

// take assigns a counter to a key with a known slot in the table.
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

// remove removes counter i, whose key has the given hash, from the table, and moves entries
// that would no longer be found (Knuth, volume 3, algorithm 6.4 R).
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

// append adds an unused counter to the end of order, with count 1.
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

// raise increments a counter.
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

// halvingsMax is the number of halvings after which every count is 0.
const halvingsMax = 63

// decay halves all counts for each half-life that has passed, and frees counters that reach 0.
// Counts are rounded down and errors up, so that an error is never understated. Rounding makes
// a count less than 1 too small, because each halving also halves earlier roundings.
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
		if count := s.count(i) >> halvings; count > 0 { // otherwise all that follow are 0 too
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

// freeSlot returns the slot of the table for a key that is not in it.
func (s *Sketch) freeSlot(hash uint64) int {
	mask := len(s.table) - 1
	slot := int(hash) & mask
	for s.table[slot] != 0 {
		slot = (slot + 1) & mask
	}
	return slot
}
