package tally

import (
	"bytes"
	"cmp"
	"slices"
	"time"
)

// An Entry is a key that was seen at least Count−Error times and less than Count+Rounding
// times, with the Rounding of its Ranking.
//
// Immutable after NewSketch.
type Entry struct {
	Key   []byte // the first KeyBytesMax bytes
	Bytes int    // length of the whole key
	Count int64
	Error int64
	hash  uint64
}

// A Ranking is a copy of one or several sketches at an instant.
//
// Immutable after NewSketch.
type Ranking struct {
	Entries []Entry // the largest count first
	// Total is how often all keys together were seen, minus less than Rounding because of
	// halving.
	Total int64
	// Missed is a bound for keys without an entry: each was seen less than
	// Missed+Rounding times. Missed ≤ Total / counters of a sketch.
	Missed   int64
	Rounding int64 // number of sketches
}

// Ranking returns a Ranking at now, which shares no memory with the sketch. It is empty for nil.
func (s *Sketch) Ranking(now time.Time) Ranking {
	if s == nil {
		return Ranking{}
	}
	if !now.Before(s.due) {
		s.decay(now)
	}
	v := Ranking{Entries: make([]Entry, s.n), Total: s.total, Rounding: 1}
	for place, i := range s.order[:s.n] {
		c := &s.counters[i]
		v.Entries[place] = Entry{Key: bytes.Clone(s.key(i)), Bytes: int(c.bytes), Count: s.count(i), Error: c.error,
			hash: c.hash}
	}
	if s.n == len(s.order) {
		v.Missed = v.Entries[s.n-1].Count
	}
	return v
}

// Merge merges views of sketches with the same seed (Agarwal and others: Mergeable Summaries,
// PODS 2012). A sketch without a key may have missed up to Missed occurrences of it.
func Merge(rankings ...Ranking) Ranking {
	type identity struct {
		key   string
		bytes int
		hash  uint64
	}
	type sum struct {
		Entry
		missed int64 // sum of Missed of the rankings with the key
	}
	var all Ranking
	sums := make(map[identity]sum)
	for _, v := range rankings {
		all.Total += v.Total
		all.Missed += v.Missed
		all.Rounding += v.Rounding
		for _, e := range v.Entries {
			id := identity{string(e.Key), e.Bytes, e.hash}
			total := sums[id]
			e.Count += total.Count
			e.Error += total.Error
			sums[id] = sum{e, total.missed + v.Missed}
		}
	}
	all.Entries = make([]Entry, 0, len(sums))
	for _, s := range sums {
		elsewhere := all.Missed - s.missed
		s.Count += elsewhere
		s.Error += elsewhere
		all.Entries = append(all.Entries, s.Entry)
	}
	slices.SortFunc(all.Entries, func(a, b Entry) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Error, b.Error), bytes.Compare(a.Key, b.Key),
			cmp.Compare(a.hash, b.hash))
	})
	return all
}
