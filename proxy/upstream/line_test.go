package upstream_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"weir/proxy/upstream"
)

// plenty is how many places are free, if it does not matter.
func plenty(time.Time) int { return 1000 }

// A standing is what a plain model knows of somebody in line.
type standing struct {
	w    *upstream.Waiter[int]
	key  uint8
	rank int
}

// a model is a Line as one would write it without haste: who waits, in the order of
// joining, and how many places each key has.
type model struct {
	waits []standing
	held  map[uint8]int
}

// next is whose turn it is.
func (m *model) next(lastFirst bool) int {
	best := 0
	for i, s := range m.waits {
		b := m.waits[best]
		switch {
		case s.rank != b.rank:
			if s.rank < b.rank {
				best = i
			}
		case m.held[s.key] != m.held[b.key]:
			if m.held[s.key] < m.held[b.key] {
				best = i
			}
		case lastFirst:
			best = i
		}
	}
	return best
}

// Whatever happens in a line, the next is the one that the plain model says. All happens
// at one time, so that what was before does not count.
func TestLineHistories(t *testing.T) {
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 1))
		const most = 12
		l, m, now := upstream.NewLine[int](most, plenty), model{held: map[uint8]int{}}, time.Unix(1, 0)
		last := standing{w: new(upstream.Waiter[int]), key: 1, rank: upstream.Ranks - 1}
		last.w.For(1, last.rank)
		l.Join(last.w)
		m.waits = append(m.waits, last)
		lastFirst := seed%2 == 1
		if lastFirst {
			l.Late(now, new(upstream.Waiter[int]), time.Second)
		}
		var placed []standing
		for i := range 2000 {
			switch n := r.IntN(10); {
			case n < 4 && len(m.waits) < most:
				s := standing{w: &upstream.Waiter[int]{Value: i}, key: uint8(r.IntN(5) * 60), rank: r.IntN(3)}
				s.w.For(uint64(s.key), s.rank)
				if out := l.Join(s.w); out != nil {
					t.Fatalf("seed %d: %d of %d wait, and one is turned away", seed, len(m.waits), most)
				}
				m.waits = append(m.waits, s)
			case n < 5 && len(m.waits) > 1:
				at := 1 + r.IntN(len(m.waits)-1)
				l.Leave(m.waits[at].w)
				m.waits = slices.Delete(m.waits, at, at+1)
			case n < 8 && len(m.waits) > 1:
				at := m.next(lastFirst)
				s := m.waits[at]
				if w := l.Next(now); w != s.w {
					t.Fatalf("seed %d, step %d: next is %d, want %d", seed, i, w.Value, s.w.Value)
				}
				l.Take(now, s.w)
				m.held[s.key]++
				m.waits, placed = slices.Delete(m.waits, at, at+1), append(placed, s)
			case len(placed) > 0:
				at := r.IntN(len(placed))
				l.Give(now, placed[at].w)
				l.Give(now, placed[at].w) // once is enough
				m.held[placed[at].key]--
				placed = slices.Delete(placed, at, at+1)
			}
			if l.Len() != len(m.waits) {
				t.Fatalf("seed %d: %d wait, want %d", seed, l.Len(), len(m.waits))
			}
		}
		for range m.waits {
			l.Next(now)
		}
		if l.Len() != 0 || l.Next(now) != nil {
			t.Errorf("seed %d: %d wait at the end", seed, l.Len())
		}
	}
}

// When a line is full the one of the lowest priority, of the key of which the most wait,
// leaves it, unless whoever comes is no better.
func TestLineFull(t *testing.T) {
	l := upstream.NewLine[int](4, plenty)
	for i, step := range []struct {
		key  uint64
		rank int
		out  int // Value of who leaves; -1: nobody
	}{
		{1, 1, -1}, {1, 1, -1}, {2, 2, -1}, {1, 1, -1},
		{2, 2, 4}, // no better than the other of its rank and key
		{2, 7, 5}, // of a lower rank than all
		{3, 1, 2}, // the lowest rank goes first
		{4, 1, 0}, // then the key of which the most wait
		{1, 1, 8}, // as many of its key wait as of any
		{9, 0, 1}, // and they give way to a higher rank
	} {
		w := &upstream.Waiter[int]{Value: i}
		w.For(step.key, step.rank)
		got := -1
		if out := l.Join(w); out != nil {
			got = out.Value
		}
		if got != step.out {
			t.Errorf("step %d: %d leaves, want %d", i, got, step.out)
		}
	}
	if l.Len() != 4 {
		t.Errorf("%d wait, want 4", l.Len())
	}
}

// unfair is a line in which key 1 has four places, others have one each, and a request of
// the highest rank has waited in vain, so that one place is kept.
func unfair(free int) (l *upstream.Line[int], now time.Time) {
	l, now = upstream.NewLine[int](10, func(time.Time) int { return free }), time.Unix(1, 0)
	for _, key := range []uint64{1, 1, 1, 1, 2, 3, 4, 5} {
		l.Take(now, waiterFor(key, 0))
	}
	now = now.Add(time.Minute)
	l.Late(now, waiterFor(6, 0), time.Second)
	return l, now
}

func waiterFor(key uint64, rank int) *upstream.Waiter[int] {
	w := new(upstream.Waiter[int])
	w.For(key, rank)
	return w
}

// What is kept free of greedy keys is kept at all targets together: with a place at each
// of two, one of them is theirs.
func TestReserveIsOfAllTargets(t *testing.T) {
	for free, admits := range map[int]bool{1: false, 2: true} {
		l, now := unfair(free)
		if got := l.Admits(now, waiterFor(1, 0)); got != admits {
			t.Errorf("%d places are free: a greedy key may have one: %t", free, got)
		}
		if !l.Admits(now, waiterFor(2, 0)) {
			t.Errorf("%d places are free, and a key that is not greedy may have none", free)
		}
	}
}

// Whoever is kept from a place holds up nobody of a lower rank who may have it.
func TestGreedyKeyHoldsUpNobody(t *testing.T) {
	l, now := unfair(1)
	greedy, low := waiterFor(1, 0), waiterFor(6, 3)
	l.Join(greedy)
	l.Join(low)
	if w := l.Next(now); w != low {
		t.Errorf("next is %p, want the one of the lower rank", w)
	}
	if w := l.Next(now); w != nil || !greedy.Waiting() {
		t.Error("the greedy key has the place that is kept")
	}
}

// Whoever has waited for long in a crowd waits on; in a line that has been long for thirty
// times as long nobody does, until it has been empty.
func TestLineLate(t *testing.T) {
	const wait = 50 * time.Millisecond
	l, start := upstream.NewLine[int](10, plenty), time.Unix(1, 0)
	for i, step := range []struct {
		at, until time.Duration // 0: may not wait on
		empty     bool          // just before
	}{
		{at: 0, until: 30 * wait},
		{at: 29 * wait, until: 30 * wait},
		{at: -wait, until: 29 * wait}, // the clock was set back
		{at: 30 * wait},
		{at: 40 * wait},
		{at: 41 * wait, until: 71 * wait, empty: true},
		{at: 70 * wait, until: 71 * wait},
		{at: 71 * wait},
	} {
		if step.empty {
			for l.Len() > 0 {
				l.Next(start)
			}
		}
		w, now := waiterFor(uint64(i), 0), start.Add(step.at)
		l.Join(w)
		until, ok := l.Late(now, w, wait)
		if ok != (step.until > 0) || ok && until != start.Add(step.until) || w.Waiting() != ok {
			t.Errorf("step %d: may wait until %v (%t), waits: %t", i, until.Sub(start), ok, w.Waiting())
		}
	}
}

func TestLineAllocatesNothing(t *testing.T) {
	l, now := upstream.NewLine[int](100, plenty), time.Unix(1, 0)
	var w [10]upstream.Waiter[int]
	steps := func() {
		for i := range w {
			w[i].For(uint64(i), i)
			l.Join(&w[i])
		}
		for next := l.Next(now); next != nil; next = l.Next(now) {
			l.Take(now, next)
		}
		for i := range w {
			l.Give(now, &w[i])
		}
	}
	steps() // the memory of a rank is made when it is first needed
	if n := testing.AllocsPerRun(100, steps); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkLine(b *testing.B) {
	for name, keys := range map[string]uint64{"one key": 1, "4096 keys": 4096} {
		b.Run(name, func(b *testing.B) {
			l, now := upstream.NewLine[int](4096, plenty), time.Unix(1, 0)
			w := make([]upstream.Waiter[int], 1000)
			for i := range w {
				w[i].For(uint64(i)%keys, 0)
				l.Join(&w[i])
			}
			b.ReportAllocs()
			for b.Loop() {
				l.Join(l.Next(now))
			}
		})
	}
}
