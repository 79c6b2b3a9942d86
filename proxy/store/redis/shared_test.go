package redis

import (
	"cmp"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"weir/proxy/limit"
	"weir/proxy/limit/limittest"
	"weir/proxy/store"
	"weir/proxy/store/redis/redistest"
)

// Two and four programs that share a key admit together what one alone would, also
// when their clocks differ.
func TestProgramsShareAKey(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	for _, programs := range []int{1, 2, 4} {
		for i, l := range []*limit.Limit{
			fixed(500),
			limittest.Must(limit.Config{Algorithm: limit.Sliding, Limit: 500, Window: century}),
			limittest.Must(limit.Config{Algorithm: limit.Token, Capacity: 500, FillRate: 0.0001}),
			limittest.Must(limit.Config{Algorithm: limit.SlidingLog, Limit: 500, Window: century}),
			limittest.Must(limit.Config{Algorithm: limit.GCRA, Limit: 1, Window: 10_000, Burst: 500}),
			limittest.Must(limit.Config{Algorithm: limit.Leaky, Capacity: 499, FillRate: 0.0001}),
			limittest.Soft(limit.Config{Algorithm: limit.Fixed, Limit: 400, Window: century}, 0.25, 1000),
		} {
			c := store.Counter{Rule: fmt.Sprint(programs, i), Key: []byte("shared"), Limit: l, Cost: 1}
			var turns []*turn
			var loops []*loop
			for p := range programs {
				lp := newLoop(t, newTestStore(t, config(s)))
				skew := time.Duration(p) * time.Hour
				lp.skew.Store(int64(skew))
				loops = append(loops, lp)
			}
			for round := range 4 {
				for _, lp := range loops {
					turns = append(turns, startTurn(lp, repeated(100+50*round, c)))
				}
			}
			admitted := 0
			for i, r := range turns {
				r.wait(t, loops[i%programs])
				for _, ans := range r.answers {
					admitted += ans.Granted
				}
			}
			if admitted != 500 {
				t.Errorf("%d programs, %v: %d admitted", programs, l.Config(), admitted)
			}
		}
	}
}

// The histories of four programs together, by the server's clock, keep to the law:
// in each window the limit, in each span of time what a bucket holds and gains.
func TestAudit(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	windows := limittest.Must(limit.Config{Algorithm: limit.Fixed, Limit: 20, Window: 0.01})
	bucket := limittest.Must(limit.Config{Algorithm: limit.Token, Capacity: 20, FillRate: 1000})
	type admission struct {
		at int64
		n  int
	}
	histories := make(chan []admission, 8)
	for _, l := range []*limit.Limit{windows, bucket} {
		var asked atomic.Int64
		for range 4 {
			c := newTestStore(t, config(s))
			go func() {
				var h []admission
				ask := store.Ask{N: 3, Counters: []store.Counter{{Rule: l.Algorithm().String(), Limit: l, Cost: 1}}}
				for i := range 300 {
					ask.N = 3
					if i%10 == 0 {
						ask.N = 30 // more than there is, however slow all of this is
					}
					asked.Add(int64(ask.N))
					g := decideNow(c, "", &ask)
					if g.Err != nil {
						t.Error(g.Err)
					}
					h = append(h, admission{g.At[0], g.Granted})
				}
				histories <- h
			}()
		}
		inWindow, all := map[int64]int{}, []admission{}
		for range 4 {
			for _, a := range <-histories {
				inWindow[a.at/10_000] += a.n
				all = append(all, a)
			}
		}
		total := 0
		for _, a := range all {
			total += a.n
		}
		if total == 0 || total == int(asked.Load()) {
			t.Errorf("%v: %d of %d admitted, which says nothing", l.Config(), total, asked.Load())
		}
		if l == windows {
			for w, n := range inWindow {
				if n > 20 {
					t.Errorf("%d admitted in window %d", n, w)
				}
			}
			continue
		}
		slices.SortFunc(all, func(a, b admission) int { return cmp.Compare(a.at, b.at) })
		for i := range all {
			n := 0
			for _, a := range all[i:] {
				n += a.n
				if most := 20 + (a.at-all[i].at)/1000 + 1; int64(n) > most {
					t.Fatalf("%d admitted in %d µs", n, a.at-all[i].at)
				}
			}
		}
	}
}
