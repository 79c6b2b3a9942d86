package upstream_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"weir/proxy/targets/upstream"
)

// usual is how long requests usually take.
const usual = 10 * time.Millisecond

// plenty is how many places are free, if it does not matter.
func plenty(time.Time) upstream.Capacity { return upstream.Capacity{Free: 1000} }

// look is a function that says how many places are free.
func look(free func() int) func(time.Time) upstream.Capacity {
	return func(time.Time) upstream.Capacity { return upstream.Capacity{Free: free()} }
}

// A standing is what the model knows of a waiter.
type standing struct {
	w    *upstream.Waiter[int]
	key  uint8
	rank int
}

// A model is a simple implementation of Queue: the waiters in the order of joining, and the number
// of places of each key.
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
		case m.score(s) != m.score(b):
			if m.score(s) < m.score(b) {
				best = i
			}
		case lastFirst:
			best = i
		}
	}
	return best
}

// score is the number of places of a waiter's client, in sixteenths, as they count just after they
// were taken. A client without a place counts as if it had had one for long.
func (m *model) score(s standing) int {
	if n := m.held[s.key]; n > 0 {
		return n
	}
	return 16
}

// Whatever happens in a queue, the next is the one that the plain model says. All happens
// at one time, so that what was before does not count.
func TestQueueHistories(t *testing.T) {
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 1))
		const most = 12
		l, m, now := upstream.NewQueue[int](most, plenty), model{held: map[uint8]int{}}, time.Unix(1, 0)
		last := standing{w: new(upstream.Waiter[int]), key: 1, rank: upstream.PriorityLevels - 1}
		last.w.SetHashes(1, 0, 0)
		last.w.Ranked(last.rank)
		l.Join(now, last.w)
		m.waits = append(m.waits, last)
		lastFirst := seed%2 == 1
		var placed []standing
		for i := range 2000 {
			switch n := r.IntN(10); {
			case n < 4 && len(m.waits) < most:
				s := standing{w: &upstream.Waiter[int]{Value: i}, key: uint8(r.IntN(5) * 60), rank: r.IntN(3)}
				s.w.SetHashes(uint64(s.key), 0, 0)
				s.w.Ranked(s.rank)
				if out := l.Join(now, s.w); out != nil {
					t.Fatalf("seed %d: %d of %d wait, and one is turned away", seed, len(m.waits), most)
				}
				m.waits = append(m.waits, s)
				if lastFirst {
					l.Late(now, s.w, time.Second)
				}
			case n < 5 && len(m.waits) > 1:
				at := 1 + r.IntN(len(m.waits)-1)
				l.Leave(now, m.waits[at].w)
				m.waits = slices.Delete(m.waits, at, at+1)
			case n < 8 && len(m.waits) > 1:
				at := m.next(lastFirst)
				s := m.waits[at]
				if w := l.Next(now); w != s.w {
					t.Fatalf("seed %d, step %d: next is %d, want %d", seed, i, w.Value, s.w.Value)
				}
				l.Take(now, s.w, usual)
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

// When a queue is full, the waiter of the lowest priority, of the key with the most waiters,
// leaves it, unless the new one would be served even later.
func TestQueueFull(t *testing.T) {
	l, now := upstream.NewQueue[int](4, plenty), time.Unix(1, 0)
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
		w.SetHashes(step.key, 0, 0)
		w.Ranked(step.rank)
		got := -1
		if out := l.Join(now, w); out != nil {
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

// unfair returns a queue in which key 1 has four of the places and other keys have one each, and a
// request of the second rank has waited for long, so that some places are reserved.
func unfair(free int) (l *upstream.Queue[int], now time.Time) {
	l, now = upstream.NewQueue[int](10, look(func() int { return free })), time.Unix(1, 0)
	for _, key := range []uint64{1, 1, 1, 1, 2, 3, 4, 5} {
		l.Take(now, waiterFor(key, 1), usual)
	}
	now = now.Add(time.Minute)
	late := waiterFor(6, 1)
	l.Join(now, late)
	l.Late(now, late, time.Second)
	l.Leave(now, late)
	return l, now
}

func waiterFor(key uint64, rank int) *upstream.Waiter[int] {
	w := new(upstream.Waiter[int])
	w.SetHashes(key, 0, 0)
	w.Ranked(rank)
	return w
}

// After a waiter has waited for long, places are reserved against lower ranks and against greedy
// keys of the same rank, but not against others, and only for a while.
func TestPlacesAreKept(t *testing.T) {
	for _, test := range []struct {
		key        uint64
		rank, free int
		later      time.Duration
		admits     bool
	}{
		{key: 1, rank: 1, free: 8, admits: false}, // 8 of 16 are kept
		{key: 1, rank: 1, free: 9, admits: true},  // 8 of 17
		{key: 2, rank: 1, free: 1, admits: true},
		{key: 6, rank: 2, free: 8, admits: false},
		{key: 1, rank: 0, free: 1, admits: true},
		{key: 1, rank: 1, free: 1, later: 3 * time.Second, admits: true},
		{key: 1, rank: 1, free: 1, later: -time.Second, admits: true}, // the clock was set back
	} {
		l, now := unfair(test.free)
		if got := l.Admits(now.Add(test.later), waiterFor(test.key, test.rank)); got != test.admits {
			t.Errorf("%+v: admits: %t", test, got)
		}
	}
}

// Keys that had places before the clock was set back do not count as having them since: against
// their averages each key with a place would be greedy.
func TestAveragesAfterAClockSetBack(t *testing.T) {
	l, now := unfair(1)
	before := now.Add(time.Hour)
	for key := uint64(10); key < 40; key++ {
		w := waiterFor(key, 1)
		l.Take(before, w, usual)
		l.Give(before.Add(300*time.Millisecond), w)
	}
	if !l.Admits(now.Add(time.Second), waiterFor(2, 1)) {
		t.Error("a key with one place counts as greedy")
	}
}

// A waiter for which no place is free because of a reservation is not overtaken by lower ranks.
func TestGreedyKeyIsBeforeLowerRanks(t *testing.T) {
	l, now := unfair(1)
	greedy, low, modest := waiterFor(1, 1), waiterFor(6, 3), waiterFor(5, 1)
	for _, w := range []*upstream.Waiter[int]{greedy, low} {
		l.Join(now, w)
	}
	if w := l.Next(now); w != nil {
		t.Errorf("%p has the place that is kept, greedy is %p, low %p", w, greedy, low)
	}
	l.Join(now, modest)
	if w := l.Next(now); w != modest {
		t.Errorf("next is %p, want the one of the same rank that is not greedy", w)
	}
	later := now.Add(time.Minute)
	if w := l.Next(later); w != greedy {
		t.Errorf("next is %p, want the one of the higher rank", w)
	}
}

// However long a waiter has waited: if no request is at the targets, every waiter has a place.
func TestPlacesAreNotKeptIdle(t *testing.T) {
	for places := 1; places < 100; places++ {
		taken := 0
		l, now := upstream.NewQueue[int](10, look(func() int { return places - taken })), time.Unix(1, 0)
		hog := waiterFor(1, 0)
		l.Take(now, hog, usual)
		for key := range uint64(5) {
			w := waiterFor(2+key, 0)
			l.Join(now, w)
			l.Late(now, w, time.Second)
			l.Leave(now, w)
		}
		l.Give(now, hog)
		now = now.Add(time.Second)
		for ; taken < (places+1)/2; taken++ {
			if !l.Admits(now, waiterFor(1, 7)) {
				t.Errorf("%d of %d places are taken, and there is none", taken, places)
				break
			}
			l.Take(now, waiterFor(1, 7), usual)
		}
	}
}

// The patience of a rank, or of keys without more than their share of the places, does not end
// because others have waited for long.
func TestLatenessIsNotShared(t *testing.T) {
	const wait = 50 * time.Millisecond
	for name, other := range map[string]*upstream.Waiter[int]{"another rank": waiterFor(6, 2),
		"a greedy key": waiterFor(1, 1)} {
		l, now := unfair(0)
		l.Join(now, other)
		l.Late(now, other, wait)
		now = now.Add(29 * wait)
		late := waiterFor(5, 1)
		l.Join(now, late)
		if until, ok := l.Late(now, late, wait); !ok || until != now.Add(30*wait) {
			t.Errorf("%s: may wait until %v later (%t)", name, until.Sub(now), ok)
		}
	}
}

// Whoever has waited for long in a crowd waits on; in a queue that has been long for thirty
// times as long nobody does, until it has been empty for a while.
func TestQueueLate(t *testing.T) {
	const wait = 50 * time.Millisecond
	l, start := upstream.NewQueue[int](10, plenty), time.Unix(1, 0)
	for i, step := range []struct {
		at, until time.Duration // 0: may not wait on
		empty     bool          // just before
	}{
		{at: 0, until: 30 * wait},
		{at: 29 * wait, until: 30 * wait},
		{at: -wait, until: 29 * wait}, // the clock was set back
		{at: 30 * wait},
		{at: 40 * wait},
		{at: 41 * wait, empty: true},
		{at: 44 * wait, empty: true},
		{at: 47 * wait}, // nobody was left
		{at: 51 * wait, until: 81 * wait, empty: true},
		{at: 80 * wait, until: 81 * wait},
		{at: 81 * wait},
		{at: 20 * wait, until: 50 * wait, empty: true}, // the clock was set back
	} {
		if step.empty {
			for l.Len() > 0 {
				l.Next(start)
			}
		}
		w, now := waiterFor(uint64(i), 0), start.Add(step.at)
		l.Join(now, w)
		until, ok := l.Late(now, w, wait)
		if ok != (step.until > 0) || ok && until != start.Add(step.until) || w.Waiting() != ok {
			t.Errorf("step %d: may wait until %v (%t), waits: %t", i, until.Sub(start), ok, w.Waiting())
		}
	}
}

func TestQueueAllocatesNothing(t *testing.T) {
	l, now := upstream.NewQueue[int](100, plenty), time.Unix(1, 0)
	var w [10]upstream.Waiter[int]
	steps := func() {
		for i := range w {
			w[i].SetHashes(uint64(i), 0, 0)
			w[i].Ranked(i)
			l.Join(now, &w[i])
		}
		for next := l.Next(now); next != nil; next = l.Next(now) {
			l.Take(now, next, usual)
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
			l, now := upstream.NewQueue[int](4096, plenty), time.Unix(1, 0)
			w := make([]upstream.Waiter[int], 1000)
			for i := range w {
				w[i].SetHashes(uint64(i)%keys, 0, 0)
				w[i].Ranked(0)
				l.Join(now, &w[i])
			}
			b.ReportAllocs()
			for b.Loop() {
				l.Join(now, l.Next(now))
			}
		})
	}
}

// One connection is allowed. The second request waits for it and gets it as
// soon as the first one is done.
func ExamplePool() {
	pool := upstream.NewPool[string, string](1, 1, 100)
	first := &upstream.Waiter[string]{Value: "first"}
	second := &upstream.Waiter[string]{Value: "second"}

	_, grant := pool.Acquire(first, false)
	fmt.Println(grant == upstream.WaitAndDial)
	fmt.Println(pool.Dialled("conn 1").Value)

	_, grant = pool.Acquire(second, false)
	fmt.Println(grant == upstream.Wait)
	fmt.Println(pool.Release("conn 1", nil).Value)

	pool.Release("conn 1", nil)
	fmt.Println(pool.Idle(), pool.Busy())
	// Output:
	// true
	// first
	// true
	// second
	// 1 0
}

// The power of two choices: the emptier of two targets drawn at random.
func ExampleBalancer() {
	now := time.Date(2026, 1, 19, 16, 30, 0, 0, time.UTC)
	inFlight := func(string) int { return 0 }
	g := upstream.NewBalancer(upstream.RoundRobin, 0, inFlight, rand.New(rand.NewPCG(1, 2)))
	g.Add("a")
	g.Add("b")

	var tried upstream.TriedTargets
	first := g.Choose(now, &tried)
	first.ConnectFailed(now, first.Epoch())
	second := g.Choose(now, &tried)
	second.Answered(now, second.Epoch(), 200)
	fmt.Println(first.Value, first.Status(now), second.Value, second.Status(now))

	now = now.Add(1250 * time.Millisecond)
	fmt.Println(first.Status(now))
	// Output:
	// a ejected b up
	// probing
}

// A name moves from one address to another: the old one stays for one answer
// more.
func ExampleResolvedAddrs() {
	old, next := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
	resolved := upstream.NewResolvedAddrs(128)
	for _, addr := range []netip.Addr{old, next, next} {
		resolved.Answered(upstream.LookupResult{Addrs: []netip.Addr{addr}})
		fmt.Println(resolved.Addrs())
	}
	// Output:
	// [10.0.0.1]
	// [10.0.0.1 10.0.0.2]
	// [10.0.0.2]
}
