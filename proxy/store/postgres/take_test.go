package postgres

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"weir/internal/test/testkit"
	"weir/proxy/limit"
	"weir/proxy/limit/limittest"
	"weir/proxy/store"
	"weir/proxy/store/postgres/postgrestest"
)

var background = context.Background()

// decisions and rounds make two tests as long as wanted.
var (
	decisions = flag.Int("decisions", 0, "how many decisions TestTakeIsLimit compares at least")
	rounds    = flag.Int("rounds", 30, "how often each of 16 clients asks in TestOppositeOrders")
)

// run calls take_1 of a schema for a batch, at an instant.
func run(t testing.TB, conn *pgconn.PgConn, schema string, clock int64, b *store.Batch) (total taken) {
	t.Helper()
	for _, call := range takes("", b) {
		f, args := call.call(clock, 0)
		result := conn.ExecParams(background, f.sql(quoted(schema)+".", args), args.values, args.types, binaryFormat,
			binaryFormat).Read()
		if result.Err != nil {
			t.Fatal(result.Err)
		}
		r, err := parseTaken(result)
		if err == nil {
			total.given += r.given
			total.instant = r.instant
			total.places, total.ats, total.granted = append(total.places, r.places...), append(total.ats, r.ats...),
				append(total.granted, r.granted...)
			err = call.deliver(&r)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return total
}

// Random batches over a few keys: what take_1 grants, and the states from which it starts,
// are those of package limit, whose states are kept beside.
func TestTakeIsLimit(t *testing.T) {
	t.Parallel()
	s := postgrestest.Start(t)
	decided := 0
	for seed := uint64(0); seed < 12 || decided < *decisions; seed++ {
		h := &history{r: rand.New(rand.NewPCG(seed, 7)), states: map[string]*limit.State{}, crowds: seed >= 12}
		for range 11 {
			h.limits = append(h.limits, h.family())
		}
		decided += h.play(t, s, fmt.Sprint("mixed_", seed))
	}
	t.Log(decided, "decisions")
}

// Buckets of very different sizes and rates take turns at the same keys, for as long as each
// needs to be full again.
func TestBucketsTakeTurns(t *testing.T) {
	t.Parallel()
	s := postgrestest.Start(t)
	for seed := range uint64(6) {
		h := &history{r: rand.New(rand.NewPCG(seed, 8)), states: map[string]*limit.State{}, slow: true}
		h.limits = append(h.limits, func() *limit.Limit {
			n := h.r.IntN(3)
			return limittest.Must(limit.Config{Algorithm: limit.Token, Capacity: []int64{300, 50, 5}[n],
				FillRate: []float64{6, 0.5, 0.1}[h.r.IntN(3)]})
		})
		h.play(t, s, fmt.Sprint("buckets_", seed))
	}
}

// The clock goes forward and back, by more and by less than keys take to recover.
func TestTurnedBack(t *testing.T) {
	t.Parallel()
	s := postgrestest.Start(t)
	for seed := range uint64(12) {
		h := &history{r: rand.New(rand.NewPCG(seed, 10)), states: map[string]*limit.State{}, back: true,
			keys: int(seed % 2 * 4)}
		for range 8 {
			h.limits = append(h.limits, h.family())
		}
		h.play(t, s, fmt.Sprint("back_", seed))
	}
}

// Many keys of token and gcra, each with one counter and none or few with others, in batches
// with a few other groups: what is decided by one statement for all keys is the same.
func TestManyKeys(t *testing.T) {
	t.Parallel()
	s, seen := postgrestest.Start(t), map[string]int{}
	for seed := range uint64(8) {
		h := &history{r: rand.New(rand.NewPCG(seed, 9)), states: map[string]*limit.State{}, keys: 10, seen: seen}
		for _, algorithm := range []limit.Algorithm{limit.Token, limit.GCRA, limit.Token, limit.GCRA, limit.Leaky,
			limit.SlidingLog} {
			h.limits = append(h.limits, h.familyOf(algorithm, h.r.IntN(3) == 0))
		}
		h.play(t, s, fmt.Sprint("keys_", seed))
	}
	for _, what := range []string{"taken", "refused", "new", "others"} {
		if seen[what] < 20 {
			t.Errorf("%s: seen %d times", what, seen[what])
		}
	}
}

// A part of a permit too few is refused, to each key of a batch and to a single one.
func TestPartTooFew(t *testing.T) {
	t.Parallel()
	now := int64(limittest.Epoch)
	b := openBackend(t, Config{URL: postgrestest.Start(t).URL("weir", "weir"), Connections: 1,
		clock: func() int64 { return now }})
	if err := b.Probe(background); err != nil {
		t.Fatal(err)
	}
	limits := []*limit.Limit{limittest.Must(limit.Config{Algorithm: limit.Token, Capacity: 1, FillRate: 1}),
		limittest.Must(limit.Config{Algorithm: limit.GCRA, Limit: 1, Window: 1, Burst: 1})}
	for _, step := range []struct {
		after   int64 // µs
		granted int
	}{{0, 1}, {999_999, 0}, {1, 1}, {999_999, 0}, {1, 1}} {
		now += step.after
		for _, keys := range [][]string{{"one"}, {"a", "b", "c"}} {
			for _, l := range limits {
				batch := new(store.Batch)
				for _, key := range keys {
					batch.Groups = append(batch.Groups,
						&store.Group{N: 1, Counters: []store.Counter{{Rule: "r", Key: []byte(key), Limit: l, Cost: 1}}})
				}
				b.Decide(background, batch)
				for _, g := range batch.Groups {
					if g.Err != nil || g.Granted != step.granted {
						t.Errorf("%v, %d keys, %d µs later: %d granted, %v, want %d", l.Algorithm(), len(keys), step.after, g.Granted,
							g.Err, step.granted)
					}
				}
			}
		}
	}
}

// play compares a history in a schema of its own, and returns how many requests were
// decided.
func (h *history) play(t *testing.T, s *postgrestest.Server, schema string) (decided int) {
	t.Helper()
	s.Do("weir", InstallScript(schema, Schema(schema, false)))
	defer s.Do("weir", "DROP SCHEMA "+schema+" CASCADE")
	conn := testkit.Must(pgconn.Connect(background, s.URL("weir", "weir")))(t)
	defer conn.Close(background)
	for _, pick := range h.limits {
		h.rules = append(h.rules, pick())
	}
	now := limittest.Epoch + h.r.Int64N(1e12)
	for step := range 300 {
		now += h.pause()
		if !h.back && h.r.IntN(4) == 0 {
			rule := h.r.IntN(len(h.rules))
			h.rules[rule] = h.limits[rule]()
		}
		b := h.batch()
		r := run(t, conn, schema, now, b)
		if r.instant != now {
			t.Fatalf("the instant is %d, want %d", r.instant, now)
		}
		h.check(t, fmt.Sprintf("%s, step %d", schema, step), now, b, r.given)
		h.note(&r)
		for _, g := range b.Groups {
			decided += g.N
		}
	}
	return decided
}

// note counts what take_many_1 has returned.
func (h *history) note(r *taken) {
	if h.seen == nil || len(r.places) == 0 {
		return
	}
	h.seen["others"] += len(r.granted)
	for i, place := range r.places {
		what := "taken"
		if place < 0 {
			what = "refused"
		} else if r.ats[i] == 0 {
			what = "new"
		}
		h.seen[what]++
	}
}

// A history is random batches and what package limit makes of them.
type history struct {
	r       *rand.Rand
	limits  []func() *limit.Limit // of each rule: some limit of its kind
	rules   []*limit.Limit
	states  map[string]*limit.State
	charged []store.Refund // by the last batch
	slow    bool           // pauses are of minutes
	back    bool           // the clock is also turned back; then limits do not change
	crowds  bool           // now and then hundreds ask at once
	seen    map[string]int // what take_many_1 has returned
	keys    int            // of each rule; then there are many groups, most of them of one counter
}

// pause is how long until the next batch: often nothing, at times long.
func (h *history) pause() int64 {
	if h.back {
		far := [...]int64{1e6, 2e7, 3e8, 3e11}[h.r.IntN(4)]
		return [...]int64{0, 0, h.r.Int64N(far), h.r.Int64N(far), -h.r.Int64N(far)}[h.r.IntN(5)]
	}
	if h.slow {
		return [...]int64{0, h.r.Int64N(1e7), h.r.Int64N(1e8), h.r.Int64N(6e8)}[h.r.IntN(4)]
	}
	return [...]int64{0, 0, h.r.Int64N(10), h.r.Int64N(1e6), 500_000 * h.r.Int64N(6), h.r.Int64N(2e7),
		h.r.Int64N(3e11)}[h.r.IntN(7)]
}

// family returns limits of one kind, of which keys keep what they have consumed when one
// takes the place of another.
func (h *history) family() func() *limit.Limit {
	return h.familyOf(limit.Algorithms()[h.r.IntN(7)], h.r.IntN(2) == 0)
}

func (h *history) familyOf(algorithm limit.Algorithm, soft bool) func() *limit.Limit {
	r := h.r
	c := limit.Config{Algorithm: algorithm, Window: [...]float64{0.5, 2.5, 60, 100_000}[r.IntN(4)]}
	grace := [...]float64{0.5, 2, 30}[r.IntN(3)] // for which a key lives longer
	return func() *limit.Limit {
		c.Limit, c.Capacity, c.Burst = 1+r.Int64N(20), 1+r.Int64N(20), 1+r.Int64N(10)
		c.FillRate = [...]float64{0.3, 1, 2.5, 7, 1000, 987.654321}[r.IntN(6)]
		if soft {
			return limittest.Soft(c, [...]float64{1, 1.5, 2}[r.IntN(3)], grace)
		}
		return limittest.Must(c)
	}
}

func (h *history) batch() *store.Batch {
	b := new(store.Batch)
	groups, keys := 1+h.r.IntN(4), 2
	if h.keys > 0 {
		groups, keys = 1+h.r.IntN(3*h.keys), h.keys
		if h.r.IntN(2) == 0 {
			groups, h.charged = 1, nil // a single key
		}
	}
	for range groups {
		g := &store.Group{N: 1 + h.r.IntN(6)}
		if h.crowds && h.r.IntN(4) == 0 {
			g.N += h.r.IntN(300)
		}
		for _, rule := range h.r.Perm(len(h.rules))[:h.counters()] {
			l := h.rules[rule]
			one := limittest.RandomAsk(h.r, l)
			c := store.Counter{Rule: fmt.Sprint("rule-", rule), Key: []byte{byte('0' + h.r.IntN(keys))}, Limit: l,
				Cost: one.Cost, Reserve: one.Reserve, MaxDelay: one.MaxDelay}
			if h.r.IntN(10) == 0 {
				c.Debt = l.Debt(h.r.Int64N(3))
			}
			g.Counters = append(g.Counters, c)
		}
		if h.keys > 0 && h.r.IntN(4) == 0 {
			g.Counters = slices.Insert(g.Counters, 0,
				store.Counter{Rule: "off", Limit: limittest.Must(limit.Config{Algorithm: limit.Off})})
		}
		b.Groups = append(b.Groups, g)
	}
	for i := 0; i < len(h.charged) && i < 3; i++ {
		b.Refunds = append(b.Refunds, h.charged[len(h.charged)-1-i])
	}
	h.charged = nil
	return b
}

// counters is how many a group has.
func (h *history) counters() int {
	if h.keys > 0 && h.r.IntN(8) > 0 {
		return 1
	}
	return min(len(h.rules), 1+h.r.IntN(1+h.r.IntN(store.CountersMax)))
}

func (h *history) state(c *store.Counter) *limit.State {
	name := string(c.Limit.Kind().Append(appendBase(nil, "", c.Rule, c.Key)))
	if h.states[name] == nil {
		h.states[name] = new(limit.State)
	}
	return h.states[name]
}

// check decides the batch with package limit, and compares.
func (h *history) check(t *testing.T, about string, now int64, b *store.Batch, given int64) {
	t.Helper()
	want := int64(0)
	for _, r := range b.Refunds {
		if r.Counter.Limit.Refund(now, h.state(&r.Counter), r.Counter.Cost, r.Instant) {
			want++
		}
	}
	if given != want {
		t.Fatalf("%s: %d places given back, want %d", about, given, want)
	}
	for _, g := range b.Groups {
		granted := int64(g.N)
		for i := range g.Counters {
			c := &g.Counters[i]
			granted = c.Limit.RoomFor(now, h.state(c), c.Charge(granted))
		}
		if g.Err != nil || int64(g.Granted) != granted {
			t.Fatalf("%s: %d of %d granted (%v), want %d: %s", about, g.Granted, g.N, g.Err, granted, describe(g))
		}
		for i := range g.Counters {
			h.compare(t, about, now, g, i)
		}
	}
}

// compare has package limit decide about one counter, from the state that it keeps and from
// that which was returned.
func (h *history) compare(t *testing.T, about string, now int64, g *store.Group, i int) {
	t.Helper()
	c, kept, told := &g.Counters[i], h.state(&g.Counters[i]), g.Before[i].Clone()
	want := c.Decide(now, kept, int64(g.N), int64(g.Granted))
	got := c.Decide(g.At[i], &told, int64(g.N), int64(g.Granted))
	if g.Granted < g.N {
		// A group that was refused in part is decided once more, as a whole: that adopts a limit.
		if g.Granted == 0 {
			one := *c
			one.Cost = 0
			c.Limit.Decide(now, kept, one.Charge(1))
		}
	}
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("%s, counter %d: %+v, want %+v: %s", about, i, got, want, describe(g))
	}
	switch l := c.Limit; {
	case g.Granted == 0 || !l.Refunds():
	case l.Algorithm() != limit.Leaky:
		h.charged = append(h.charged, store.Refund{Counter: *c, Instant: g.At[i]})
	case want.Slot > 0:
		h.charged = append(h.charged, store.Refund{Counter: *c, Instant: want.Slot})
	}
}

func describe(g *store.Group) string {
	text := fmt.Sprint(g.N, " ×")
	for _, c := range g.Counters {
		overshoot, grace := c.Limit.Overshoot()
		text += fmt.Sprintf(" [%s %q %+v soft %d %v of %+v]", c.Rule, c.Key, c.Charge(1), overshoot, grace, c.Limit.Config())
	}
	return text
}

// century is a window that does not end while a test runs, in seconds.
const century = 100 * 365 * 24 * 3600

// fixed is a limit of that many in all.
func fixed(permits int64) *limit.Limit {
	return limittest.Must(limit.Config{Algorithm: limit.Fixed, Limit: permits, Window: century})
}

// A key that has room for all who ask is found once for each call, not once to read it and
// once to write it, whether it is alone in the call or not. Counters that are off do not matter.
func TestFoundOnce(t *testing.T) {
	t.Parallel()
	off := limittest.Must(limit.Config{Algorithm: limit.Off})
	for _, cfg := range []limit.Config{{Algorithm: limit.Token, Capacity: 1000, FillRate: 1},
		{Algorithm: limit.GCRA, Limit: 1000, Window: 3600, Burst: 1000}} {
		for _, keys := range []string{"a", "abc"} {
			s, b := newWorld(t)
			const calls = 200
			for range calls {
				batch := new(store.Batch)
				for i := range keys {
					batch.Groups = append(batch.Groups, &store.Group{N: 2, Counters: []store.Counter{
						{Rule: "off", Limit: off}, {Rule: "r", Key: []byte(keys[i : i+1]), Limit: limittest.Must(cfg), Cost: 1}}})
				}
				b.Decide(background, batch)
				for _, g := range batch.Groups {
					if g.Err != nil || g.Granted != 2 || g.At[0] != 0 || g.At[1] == 0 {
						t.Fatalf("%v: %d granted at %v, %v", cfg.Algorithm, g.Granted, g.At[:2], g.Err)
					}
				}
			}
			if found := counted(t, s, b, "idx_scan"); found > int64(calls*len(keys)*3/2) {
				t.Errorf("%v: %d calls looked for %d keys %d times", cfg.Algorithm, calls, len(keys), found)
			}
		}
	}
}

// Each function that decides bounds how long its transaction waits for a lock, and where states
// are durable the transaction does not wait for the disk.
func TestSettingsOfTransaction(t *testing.T) {
	t.Parallel()
	s := postgrestest.Start(t)
	s.Do("weir", InstallScript("weir", Schema("weir", true)))
	conn := testkit.Must(pgconn.Connect(background, s.URL("weir", "weir")))(t)
	defer conn.Close(background)
	bucket := limittest.Must(limit.Config{Algorithm: limit.Token, Capacity: 10, FillRate: 1})
	one := store.Counter{Rule: "r", Key: []byte("one"), Limit: bucket, Cost: 1}
	other := store.Counter{Rule: "r", Key: []byte("other"), Limit: bucket, Cost: 1}
	for want, groups := range map[function][]*store.Group{
		takeAny:  {{N: 1, Counters: []store.Counter{one, other}}},
		takeOne:  {{N: 1, Counters: []store.Counter{one}}},
		takeMany: {{N: 1, Counters: []store.Counter{one}}, {N: 1, Counters: []store.Counter{other}}},
	} {
		f, args := takes("", &store.Batch{Groups: groups})[0].call(0, 1234)
		if f != want {
			t.Fatalf("%s decides, want %s", functions[f], functions[want])
		}
		sql := "SELECT current_setting('synchronous_commit') || ' ' || current_setting('lock_timeout')"
		pipe := conn.StartPipeline(background)
		pipe.SendQueryParams(f.sql("weir.", args), args.values, args.types, binaryFormat, binaryFormat)
		pipe.SendQueryParams(sql, nil, nil, nil, nil)
		if err := pipe.Sync(); err != nil {
			t.Fatal(err)
		}
		var settings string
		for range 2 {
			reader, _ := testkit.Must(pipe.GetResults())(t).(*pgconn.ResultReader)
			r := reader.Read()
			if r.Err != nil || len(r.Rows) != 1 {
				t.Fatal(r.Err, len(r.Rows))
			}
			settings = string(r.Rows[0][0])
		}
		if err := pipe.Close(); err != nil {
			t.Fatal(err)
		}
		if settings != "off 1234ms" {
			t.Errorf("%s: %s", functions[f], settings)
		}
	}
}
