package redis

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"weir/proxy/limit"
	"weir/proxy/store"
	"weir/proxy/store/lane"
	"weir/proxy/store/redis/redistest"
	"weir/proxy/store/storetest"
)

// A remote is a way to a server whose scripts read a clock of the test: what it does
// is about names with a prefix, at an instant.
type remote struct {
	c       *testStore
	ask     func(prefix string, now time.Time, ask *store.Ask) store.Answer
	release func(prefix string, now time.Time, c *store.Counter, instant int64) bool // nil: nobody is told
	// tell tells the next script the instant, and returns what to add to its arguments.
	tell func(prefix string, now time.Time) []string
}

// direct has the calling goroutine send and wait.
func direct(t testing.TB) remote {
	c := newClocked(t, redistest.Start(t), clockInArgument)
	tell := func(_ string, now time.Time) []string { return []string{strconv.FormatInt(now.UnixMicro(), 10)} }
	release := func(prefix string, now time.Time, counter *store.Counter, instant int64) bool {
		if !counter.Limit.Refunds() {
			return false // the lane does not tell
		}
		args := append(releaseArgs(&store.Refund{Counter: *counter, Instant: instant}), tell(prefix, now)...)
		reply, err := c.back.do(&call{script: c.back.scripts.give,
			keys: []string{string(appendName(nil, prefix, counter))}, args: args})
		if err != nil {
			panic(err)
		}
		n, err := reply.AsInt64()
		if err != nil {
			panic(err)
		}
		return n == 1
	}
	ask := func(prefix string, now time.Time, ask *store.Ask) (ans store.Answer) {
		d := newDecided(prefix, ask)
		s := sender{c: c.back.as(prefix), conn: *c.back.conn.Load(), ctx: background, bySlot: make(map[uint16]int)}
		s.describe([]*store.Group{&d.Group})
		if len(s.asked[0].parts) > 0 { // else all are off
			s.ask(&s.asked[0], &s.asked[0].parts[0])
			s.calls[0].args = append(s.calls[0].args, tell(prefix, now)...)
			s.bundles[0].read(s.run()[0])
		}
		if d.Err != nil {
			panic(d.Err)
		}
		storetest.ComputeAnswer(&d.Group, &ans)
		if ans.At = now.UnixMicro(); len(s.asked[0].parts) == 0 {
			ans.At = 0
		}
		return ans
	}
	return remote{c: c, ask: ask, release: release, tell: tell}
}

// throughLane asks a lane's loop, which does not report what is given back.
func throughLane(t testing.TB) remote {
	s := redistest.Start(t)
	c := newClocked(t, s, clockInKey)
	back := &prefixed{backend: c.back}
	behind := lane.New(back, c.back.cfg.Config)
	l, conn := newLoop(t, &testStore{Store: behind}), dial(s)
	tell := func(prefix string, now time.Time) []string {
		setClock(t, conn, prefix, now.UnixMicro())
		return nil
	}
	ask := func(prefix string, now time.Time, ask *store.Ask) store.Answer {
		tell(prefix, now)
		back.as.Store(c.back.as(prefix))
		return l.askAll(ask)
	}
	return remote{c: c, ask: ask, tell: tell}
}

// prefixed is a backend that decides about names with another prefix from time to time.
type prefixed struct {
	*backend
	as atomic.Pointer[backend]
}

func (p *prefixed) Decide(ctx context.Context, b *store.Batch) { p.as.Load().Decide(ctx, b) }

func setClock(t testing.TB, conn rueidis.Client, prefix string, now int64) {
	t.Helper()
	must(t, conn.Do(background, conn.B().Set().Key(prefix+"clock").Value(strconv.FormatInt(now, 10)).Build()))
}

// addNow runs the script that gives a key more permits; clock is the instant for the script.
func addNow(t testing.TB, c *testStore, names []string, n int64, clock ...string) bool {
	t.Helper()
	if n == 0 {
		return false // as testStore.Add
	}
	args := append([]string{strconv.FormatInt(min(n, store.ExactIntMax), 10)}, clock...)
	changed, err := c.back.runAdd(background, *c.back.conn.Load(), names, args...)
	if err != nil {
		t.Fatalf("give %d: %v", n, err)
	}
	return changed > 0
}

// opener opens stores on one server, each with names and a clock of its own.
func opener(t testing.TB, how func(testing.TB) remote) storetest.Open {
	r := how(t)
	var opened atomic.Int64
	return func(t testing.TB) storetest.Store {
		prefix := strconv.FormatInt(opened.Add(1), 10) + "_"
		clock := storetest.NewClock()
		kinds := make(map[limit.Kind]bool) // that were asked for, or Redis would be asked
		namesOf := func(rule string, key []byte) (names []string) {
			for kind := range kinds {
				names = append(names, string(kind.Append(appendBase(nil, prefix, rule, key))))
			}
			return names
		}
		var mu sync.Mutex
		opened := storetest.Store{
			Take: func(ask *store.Ask, ans *store.Answer) {
				mu.Lock()
				for i := range ask.Counters {
					kinds[ask.Counters[i].Limit.Kind()] = true
				}
				mu.Unlock()
				*ans = r.ask(prefix, clock.Now(), ask)
			},
			Add: func(rule string, key []byte, n int64) bool {
				names := namesOf(rule, key)
				return len(names) > 0 && addNow(t, r.c, names, n, r.tell(prefix, clock.Now())...)
			},
			Forget: func(rule string, key []byte) {
				conn := *r.c.back.conn.Load()
				must(t, conn.Do(background, conn.B().Del().Key(namesOf(rule, key)...).Build()))
			},
			Now:     clock.Now,
			Advance: clock.Advance,
		}
		if r.release != nil {
			opened.Refund = func(c *store.Counter, instant int64) bool { return r.release(prefix, clock.Now(), c, instant) }
		}
		return opened
	}
}
