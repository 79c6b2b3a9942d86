package redis

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir/proxy/limit"
	"weir/proxy/limit/limittest"
	"weir/proxy/store"
	"weir/proxy/store/storetest"
)

// clocked is the script that decides, with the clock in a key beside those of the
// counters, and states that outlive a test in which that clock stands still.
func clocked(t testing.TB) scripts {
	const clock = `local t = { 0, redis.call('GET', string.match(KEYS[1], '^%d+_') .. 'clock') }`
	source := stateLua
	for _, change := range [][2]string{{`local t = redis.call('TIME')`, clock}, {`'PX', ttl`, `'PX', ttl + 3600000`}} {
		if strings.Count(source, change[0]) != 1 {
			t.Fatalf("%q is not in state.lua", change[0])
		}
		source = strings.Replace(source, change[0], change[1], 1)
	}
	s := newScripts()
	s.take = newScript(source + takeLua)
	return s
}

// opener opens stores on one server, each with names and a clock of its own.
func opener(t testing.TB, s *server) storetest.Open {
	cfg := config(s)
	cfg.RefusalsMax = -1 // they are remembered by this machine's clock
	c := open(cfg.withDefaults(), clocked(t))
	t.Cleanup(c.Close)
	l := newLoop(t, c)
	conn := s.dial()
	var opened atomic.Int64
	return func(t testing.TB) storetest.Store {
		prefix := strconv.FormatInt(opened.Add(1), 10) + "_"
		var mu sync.Mutex
		now := time.UnixMicro(limittest.Epoch)
		set := func() {
			must(t, conn.Do(background, conn.B().Set().Key(prefix+"clock").Value(strconv.FormatInt(now.UnixMicro(), 10)).Build()))
		}
		set()
		return storetest.Store{
			Take: func(ask *store.Ask, ans *store.Answer) { *ans = l.askAs(prefix, ask) },
			Now: func() time.Time {
				mu.Lock()
				defer mu.Unlock()
				return now
			},
			Advance: func(d time.Duration) {
				mu.Lock()
				defer mu.Unlock()
				if d != 0 {
					now = now.Add(d)
					set()
				}
			},
		}
	}
}

func TestStore(t *testing.T) {
	storetest.Run(t, opener(t, startServer(t)))
}

// The same histories in the simulated and in the real Redis, each with a clock
// that the test turns.
func TestSimulatedRedisIsLikeRedis(t *testing.T) {
	simulated := func(t testing.TB) storetest.Store {
		clock, table := storetest.NewClock(), newTable(t)
		return storetest.Store{
			Take:    func(ask *store.Ask, ans *store.Answer) { table.Take(clock.Now(), ask, ans) },
			Now:     clock.Now,
			Advance: clock.Advance,
		}
	}
	storetest.Differential(t, opener(t, startServer(t)), simulated, 20)
}

// Random histories by the server's own clock: the simulated Redis is told the
// instant that the script read, and gives the same answers and states.
func TestServerClock(t *testing.T) {
	_, c, _ := newWorld(t)
	limits := append(limittest.Limits(),
		limittest.Must(limit.Config{Algorithm: limit.Fixed, Limit: 5, Window: 0.002}),
		limittest.Must(limit.Config{Algorithm: limit.Sliding, Limit: 5, Window: 0.002}),
		limittest.Must(limit.Config{Algorithm: limit.Token, Capacity: 5, FillRate: 5000}))
	table := newTable(t)
	r := rand.New(rand.NewPCG(3, 4))
	for i := range 1500 {
		ask := store.Ask{N: 1 + r.IntN(4)}
		for _, rule := range r.Perm(10)[:1+r.IntN(3)] {
			l := limits[(rule*3+i/200)%len(limits)]
			ask.Counters = append(ask.Counters, store.Counter{Rule: fmt.Sprint("rule-", rule), Key: []byte{byte(r.IntN(2))}, Limit: l, Cost: r.Int64N(3)})
		}
		g := decideNow(c, &ask)
		if g.err != nil {
			t.Fatal(g.err)
		}
		var got, want store.Answer
		g.answer(ask.N, &got)
		table.Take(time.UnixMicro(g.at[0]), &ask, &want)
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("step %d, %d × %v:\n  redis %+v\nsimulated %+v", i, ask.N, g.id, got, want)
		}
	}
}

// A key lives until it is as new, rounded up, and a second more.
func TestTimeToLive(t *testing.T) {
	s, c, _ := newWorld(t)
	conn := s.dial()
	for i, l := range append(limittest.Limits(), fixed(1<<53), limittest.Must(limit.Config{Algorithm: limit.Token, Capacity: 3000, FillRate: 0.000001})) {
		for _, cost := range []int64{1, l.Permits()} {
			ask := store.Ask{N: 1, Counters: []store.Counter{{Rule: fmt.Sprint(i, cost), Limit: l, Cost: cost}}}
			g := decideNow(c, &ask)
			if g.err != nil {
				t.Fatal(g.err)
			}
			var ans store.Answer
			g.answer(1, &ans)
			m := must(t, conn.Do(background, conn.B().Pexpiretime().Key(g.names[0]).Build()))
			expires, err := m.AsInt64()
			if err != nil {
				t.Fatal(err)
			}
			want := time.UnixMicro(g.at[0]).Add(ans.Decisions[0].TTL())
			// Redis counts from the millisecond in which the script began
			if late := time.UnixMilli(expires).Sub(want); late < -time.Millisecond || late > 100*time.Millisecond {
				t.Errorf("%v, cost %d: expires %v after what package limit says", l.Config(), cost, late)
			}
		}
	}
}

// A batch of asks from one loop is answered as if each had been alone.
func TestBatchIsSingles(t *testing.T) {
	_, c, _ := newWorld(t)
	lane := c.NewLane(func(func(time.Time)) {})
	defer lane.Close()
	table := newTable(t)
	r := rand.New(rand.NewPCG(5, 6))
	for i, l := range limittest.Limits() {
		c := store.Counter{Rule: fmt.Sprint("batch-", i), Limit: l, Cost: 1}
		asks := make([]store.Ask, 20)
		var got []store.Answer
		e := encoder{}
		e.encode([]store.Counter{c})
		b := lane.newBatch()
		g := lane.newGroup()
		g.fill(&e, []store.Counter{c})
		b.groups = append(b.groups, g)
		for i := range asks {
			asks[i] = store.Ask{N: 1 + r.IntN(2), Counters: []store.Counter{c}}
			b.add(g, waiter{n: asks[i].N, done: func(_ time.Time, ans *store.Answer) {
				kept := *ans
				kept.Decisions = append([]limit.Decision(nil), ans.Decisions...)
				got = append(got, kept)
			}})
			lane.waiting++
		}
		b.send(lane.client)
		b.done.Store(true)
		lane.land(time.Now(), b)
		for i := range asks {
			var want store.Answer
			table.Take(time.UnixMicro(g.at[0]), &asks[i], &want)
			if !reflect.DeepEqual(got[i], want) {
				t.Fatalf("%v, ask %d:\n   got %+v\nsingly %+v", l.Config(), i, got[i], want)
			}
		}
	}
}
