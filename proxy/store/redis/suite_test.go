package redis

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"weir/internal/test/testkit"
	"weir/proxy/limit"
	"weir/proxy/limit/limittest"
	"weir/proxy/store"
	"weir/proxy/store/redis/redistest"
	"weir/proxy/store/simredis"
	"weir/proxy/store/storetest"
)

// Where the scripts of a test read the clock: in a key beside those of the
// counters, or in one more argument.
const (
	clockInKey      = `{ 0, call('GET', string.match(KEYS[1], '^%d+_') .. 'clock') }`
	clockInArgument = `{ 0, ARGV[#ARGV] }`
)

// clocked are the scripts with a clock that the test turns, and states that outlive
// a test in which that clock stands still.
func clocked(t testing.TB, clock string) scripts {
	s := newScripts()
	for _, one := range []**Script{&s.take, &s.give, &s.add} {
		source := (*one).source
		for _, change := range [][2]string{{`call('TIME')`, clock}, {`local MARGIN = 1000`, `local MARGIN = 3601000`}} {
			if strings.Count(source, change[0]) != 1 {
				t.Fatalf("%q is not once in the scripts of a counter", change[0])
			}
			source = strings.Replace(source, change[0], change[1], 1)
		}
		*one = NewScript(source)
	}
	return s
}

// newClocked returns a client of s with such scripts.
func newClocked(t testing.TB, s *redistest.Server, clock string) *testStore {
	cfg := config(s)
	cfg.RefusalsMax = -1 // they are remembered by this machine's clock
	return openClient(t, cfg, clocked(t, clock))
}

func TestStore(t *testing.T) {
	t.Parallel()
	storetest.Run(t, opener(t, direct))
}

// The same histories in the simulated and in the real Redis, each with a clock
// that the test turns.
func TestSimulatedRedisIsLikeRedis(t *testing.T) {
	t.Parallel()
	simulated := func(t testing.TB) storetest.Store {
		return storetest.Timed(testkit.Must(simredis.New(simredis.Config{}))(t))
	}
	storetest.Differential(t, opener(t, throughLane), simulated, 20)
	storetest.Differential(t, opener(t, direct), simulated, 20)
}

// Random histories by the server's own clock: the simulated Redis gets the
// instant that the script read, and gives the same answers and states.
func TestServerClock(t *testing.T) {
	t.Parallel()
	_, c, _ := newWorld(t)
	limits := append(limittest.Limits(),
		limittest.Must(limit.Config{Algorithm: limit.Fixed, Limit: 5, Window: 0.002}),
		limittest.Must(limit.Config{Algorithm: limit.Sliding, Limit: 5, Window: 0.002}),
		limittest.Must(limit.Config{Algorithm: limit.Token, Capacity: 5, FillRate: 5000}),
		limittest.Must(limit.Config{Algorithm: limit.SlidingLog, Limit: 50, Window: 0.02}),
		limittest.Must(limit.Config{Algorithm: limit.GCRA, Limit: 5, Window: 0.002, Burst: 3}),
		limittest.Must(limit.Config{Algorithm: limit.Leaky, Capacity: 5, FillRate: 3000}),
		limittest.Soft(limit.Config{Algorithm: limit.SlidingLog, Limit: 5, Window: 0.003}, 0.6, 0.002),
		limittest.Soft(limit.Config{Algorithm: limit.Fixed, Limit: 5, Window: 0.003}, 0.6, 0.002))
	table := testkit.Must(simredis.New(simredis.Config{}))(t)
	r := rand.New(rand.NewPCG(3, 4))
	for i := range 1500 {
		ask := store.Ask{N: 1 + r.IntN(4)}
		for _, rule := range r.Perm(10)[:1+r.IntN(3)] {
			l := limits[(rule*3+i/200)%len(limits)]
			one := limittest.RandomAsk(r, l)
			ask.Counters = append(ask.Counters, store.Counter{Rule: fmt.Sprint("rule-", rule), Key: []byte{byte(r.IntN(2))},
				Limit: l, Cost: one.Cost, Reserve: one.Reserve, MaxDelay: one.MaxDelay})
		}
		g := decideNow(c, "", &ask)
		if g.Err != nil {
			t.Fatal(g.Err)
		}
		var got, want store.Answer
		storetest.ComputeAnswer(&g.Group, &got)
		table.Take(time.UnixMicro(g.At[0]), &ask, &want)
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("step %d, %d × %v:\n  redis %+v\nsimulated %+v", i, ask.N, g.names, got, want)
		}
	}
}

// A key lives until it is as new, rounded up, and a second more. Redis counts from
// about when the script read the clock: a little before, or later if the machine was
// busy with something else in between, which is tried again with another key.
func TestTimeToLive(t *testing.T) {
	t.Parallel()
	s, c, _ := newWorld(t)
	conn := dial(s)
	lives := func(counter store.Counter) (limit.Decision, time.Duration) {
		g := decideNow(c, "", &store.Ask{N: 1, Counters: []store.Counter{counter}})
		if g.Err != nil {
			t.Fatal(g.Err)
		}
		var ans store.Answer
		storetest.ComputeAnswer(&g.Group, &ans)
		m := must(t, conn.Do(background, conn.B().Pexpiretime().Key(g.names[0]).Build()))
		expires := testkit.Must(m.AsInt64())(t)
		return ans.Decision(), time.UnixMilli(expires).Sub(time.UnixMicro(g.At[0]))
	}
	for i, l := range append(limittest.Limits(), fixed(1<<53),
		limittest.Must(limit.Config{Algorithm: limit.Token, Capacity: 3000, FillRate: 0.000001})) {
		overshoot, _ := l.Overshoot()
		for _, cost := range []int64{1, l.Burst() + overshoot} {
			tries := 0
			testkit.Eventually(t, fmt.Sprintf("%v, cost %d: it lives no longer than it must", l.Config(), cost), func() bool {
				tries++
				d, alive := lives(store.Counter{Rule: fmt.Sprint(i, cost), Key: []byte{byte(tries)}, Limit: l, Cost: cost})
				if alive < d.ResetAfter {
					t.Errorf("%v, cost %d: lives %v, is as new after %v", l.Config(), cost, alive, d.ResetAfter)
				}
				return alive <= d.TTL()+time.Millisecond
			})
		}
	}
}

// A batch of asks from one loop is answered as if each had been alone.
func TestBatchIsSingles(t *testing.T) {
	t.Parallel()
	cfg := config(redistest.Start(t))
	cfg.InFlight = 1 // of several batches under way, the later may be the first
	l := newLoop(t, newTestStore(t, cfg))
	table := testkit.Must(simredis.New(simredis.Config{}))(t)
	r := rand.New(rand.NewPCG(5, 6))
	for i, lim := range limittest.Limits() {
		asks := make([]store.Ask, 20)
		for k := range asks {
			asks[k] = store.Ask{N: 1 + r.IntN(2),
				Counters: []store.Counter{{Rule: fmt.Sprint("batch-", i), Limit: lim, Cost: 1}}}
		}
		for k, got := range asksInOneTurn(t, l, asks).answers {
			var want store.Answer
			table.Take(time.UnixMicro(got.At), &asks[k], &want)
			if got.Mode != store.Cached && !reflect.DeepEqual(got, want) {
				t.Fatalf("%v, ask %d:\n   got %+v\nsingly %+v", lim.Config(), k, got, want)
			}
		}
	}
}

// Whatever the clock does, also backwards, and however limits change: the script
// keeps the states that package limit keeps, to the byte.
func TestStates(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c, conn := newClocked(t, s, clockInKey), dial(s)
	limits := limittest.Limits()
	for _, l := range limittest.Limits() { // the same with other amounts
		cfg := l.Config()
		cfg.Limit, cfg.Capacity = cfg.Limit*2, cfg.Capacity*2
		if lim, err := limit.New(cfg); err == nil { // the shortest logs cannot be larger
			limits = append(limits, &lim)
		}
	}
	limits = append(limits,
		limittest.Must(limit.Config{Algorithm: limit.Token, Capacity: 3000, FillRate: 0.000001}),
		limittest.Must(limit.Config{Algorithm: limit.Token, Capacity: 1 << 53, FillRate: 1_000_000_000}),
		limittest.Must(limit.Config{Algorithm: limit.Fixed, Limit: 1 << 53, Window: century}),
		limittest.Must(limit.Config{Algorithm: limit.Sliding, Limit: 1 << 53 / century, Window: century}),
		limittest.Must(limit.Config{Algorithm: limit.SlidingLog, Limit: limit.LogMax, Window: century}),
		limittest.Must(limit.Config{Algorithm: limit.GCRA, Limit: 1, Window: century}),
		limittest.Must(limit.Config{Algorithm: limit.GCRA, Limit: 1 << 53, Window: 1, Burst: 1 << 53 / 1_000_000}),
		limittest.Must(limit.Config{Algorithm: limit.Leaky, Capacity: 1<<53 - 1, FillRate: 1_000_000_000}),
		limittest.Must(limit.Config{Algorithm: limit.Leaky, Capacity: 3000, FillRate: 0.000001}))
	for seed := range uint64(30) {
		r := rand.New(rand.NewPCG(seed, 9))
		prefix := strconv.FormatUint(seed, 10) + "_"
		states := make(map[limit.Kind]*limit.State)
		now, l := limittest.Epoch, limits[r.IntN(len(limits))]
		for i := range 60 {
			now += []int64{0, r.Int64N(10), r.Int64N(3_000_000), -r.Int64N(5_000_000), r.Int64N(1e11)}[r.IntN(5)]
			if r.IntN(4) == 0 {
				l = limits[r.IntN(len(limits))]
			}
			c0 := store.Counter{Rule: "r", Limit: l, Cost: r.Int64N(min(1<<40, l.Burst())/2 + 2)}
			if r.IntN(4) == 0 {
				c0.Reserve, c0.MaxDelay = l.Reserve(r.Int64N(800)), time.Duration(r.Int64N(4000))*time.Millisecond
			}
			ask := store.Ask{N: 1 + r.IntN(3), Counters: []store.Counter{c0}}
			setClock(t, conn, prefix, now)
			g := decideNow(c, prefix, &ask)
			if g.Err != nil {
				t.Fatal(g.Err)
			}
			if states[l.Kind()] == nil {
				states[l.Kind()] = new(limit.State)
			}
			state := states[l.Kind()]
			granted, _ := l.Decide(now, state, c0.Charge(int64(ask.N)))
			if r.IntN(3) == 0 {
				n := limittest.RandomAdd(r, l)
				if got, want := addNow(t, c, g.names, n), state.Add(now, n); got != want {
					t.Fatalf("seed %d, step %d at %d: %d given to %v: %v, want %v", seed, i, now, n, g.names, got, want)
				}
			}
			raw := state.Append(nil)
			m := must(t, conn.Do(background, conn.B().Get().Key(g.names[0]).Build()))
			got, _ := m.AsBytes() // no state is no error here
			if *state == (limit.State{}) {
				got = raw // nothing was written yet
			}
			if got = living(got); int64(g.Granted) != granted || string(got) != string(raw) {
				t.Fatalf("seed %d, step %d at %d: %d × %v\n   got %d, %x\nwant %d, %x", seed, i, now, ask.N, g.names, g.Granted,
					got, granted, raw)
			}
		}
	}
}

// living is a state as package limit has it: without the entries of a log that a
// script leaves to be cut off later, and without their number.
func living(state []byte) []byte {
	const head, soft, entry = 24, 48, 14
	if len(state) < soft || limit.Algorithm(state[7]) != limit.SlidingLog {
		return state
	}
	dead := int(binary.LittleEndian.Uint32(state[head:]))
	clear(state[head : head+8])
	return append(state[:soft:soft], state[soft+entry*dead:]...)
}

// What is given back returns to the window from which it was taken, and to no
// other. Of a bucket it is no more than it cannot have regained since.
func TestGiveBack(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c, conn := newClocked(t, s, clockInKey), dial(s)
	const sec = time.Second
	windowOf := func(a limit.Algorithm) limit.Config { return limit.Config{Algorithm: a, Limit: 10, Window: 10} }
	bucketOf := func(rate float64) limit.Config {
		return limit.Config{Algorithm: limit.Token, Capacity: 10, FillRate: rate}
	}
	gcra := limit.Config{Algorithm: limit.GCRA, Limit: 10, Window: 10, Burst: 10}
	for i, test := range []struct {
		cfg       limit.Config
		between   time.Duration // 4 of 10 are taken at 0, 2 then
		after     time.Duration // 3 of the first are given back then
		remaining int64
	}{
		{windowOf(limit.Fixed), 1 * sec, 9 * sec, 7},
		{windowOf(limit.Fixed), 10 * sec, 10 * sec, 8},
		{windowOf(limit.Sliding), 1 * sec, 9 * sec, 7},
		{windowOf(limit.Sliding), 10 * sec, 10 * sec, 7},
		{windowOf(limit.Sliding), 19 * sec, 20 * sec, 8},
		{bucketOf(0.1), 0, 0, 7},
		{bucketOf(0.1), 10 * sec, 20 * sec, 7},
		{bucketOf(1), 10 * sec, 20 * sec, 10},
		{windowOf(limit.SlidingLog), 1 * sec, 9 * sec, 7},
		{windowOf(limit.SlidingLog), 9 * sec, 10 * sec, 8},
		{windowOf(limit.SlidingLog), 0, 9 * sec, 7},
		{gcra, 0, 0, 7},
		{gcra, 1 * sec, 2 * sec, 7},
		{gcra, 1 * sec, 9 * sec, 10},
	} {
		prefix := strconv.Itoa(i) + "_"
		l := limittest.Must(test.cfg)
		take := func(at time.Duration, cost int64) *decided {
			setClock(t, conn, prefix, limittest.Epoch+at.Microseconds())
			g := decideNow(c, prefix, &store.Ask{N: 1, Counters: []store.Counter{{Rule: "r", Limit: l, Cost: cost}}})
			if g.Err != nil || g.Granted != 1 {
				t.Fatalf("%v: %v, %d granted", test.cfg, g.Err, g.Granted)
			}
			return g
		}
		g := take(0, 4)
		taken := strconv.FormatInt(g.At[0], 10)
		take(test.between, 2)
		take(test.after, 0)
		args := appendGive([]string{taken}, l, 3, 0)
		if _, err := c.back.do(&call{script: c.back.scripts.give, keys: g.names, args: args}); err != nil {
			t.Fatal(err)
		}
		var ans store.Answer
		storetest.ComputeAnswer(&take(test.after, 0).Group, &ans)
		if got := ans.Decision().Remaining; got != test.remaining {
			t.Errorf("%v, after %v: %d remain, want %d", test.cfg, test.after, got, test.remaining)
		}
	}
}

// What was all given back at the instant at which it was taken leaves nothing to
// which more of that instant could be added.
func TestGiveBackAtOnce(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c, conn := newClocked(t, s, clockInKey), dial(s)
	l := limittest.Must(limit.Config{Algorithm: limit.SlidingLog, Limit: 10, Window: 10})
	take := func(at time.Duration, cost int64) limit.Decision {
		setClock(t, conn, "1_", limittest.Epoch+at.Microseconds())
		g := decideNow(c, "1_", &store.Ask{N: 1, Counters: []store.Counter{{Rule: "r", Limit: l, Cost: cost}}})
		if g.Err != nil || g.Granted != 1 {
			t.Fatalf("%v, %d granted", g.Err, g.Granted)
		}
		var ans store.Answer
		storetest.ComputeAnswer(&g.Group, &ans)
		return ans.Decision()
	}
	take(0, 2)
	take(4*time.Second, 3)
	args := appendGive([]string{strconv.FormatInt(limittest.Epoch+4_000_000, 10)}, l, 3, 0)
	if _, err := c.back.do(&call{script: c.back.scripts.give,
		keys: []string{string(appendName(nil, "1_", &store.Counter{Rule: "r", Limit: l}))}, args: args}); err != nil {
		t.Fatal(err)
	}
	if d := take(4*time.Second, 1); d.Remaining != 7 {
		t.Errorf("3 of 5 were given back and 1 taken: %+v, want 7 left", d)
	}
	if d := take(10*time.Second, 0); d.Remaining != 9 || d.ResetAfter != 4*time.Second {
		t.Errorf("a window after the first: %+v, want 9 left for 4s", d)
	}
}
