package lane

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"weir/internal/test/testkit"
	"weir/proxy/limit"
	"weir/proxy/limit/limittest"
	"weir/proxy/store"
	"weir/proxy/store/simredis"
)

// outcomes returns the outcome of each ask, in the order of the answers.
func (st *stage) outcomes() string {
	var text []string
	for i, ans := range st.got {
		text = append(text, fmt.Sprintf("%s: %d %v", st.names[i], ans.Granted, ans.Mode))
	}
	st.got, st.names = nil, nil
	return strings.Join(text, ", ")
}

func TestScripts(t *testing.T) {
	t.Parallel()
	const s = time.Second
	ten, one := counter("ten", fixed(10)), counter("one", fixed(1))
	type step struct {
		what  string
		after time.Duration
		n     int
		c     store.Counter
		want  string // what was answered until then
	}
	for name, test := range map[string]struct {
		fault error
		mode  store.Mode
		steps []step
	}{
		"asks gather while a batch is under way": {steps: []step{
			{"ask a", 0, 1, ten, ""}, {"ask b", 0, 4, ten, ""}, {"ask c", 0, 8, ten, ""}, {"ask d", 0, 1, one, ""},
			{"let", 0, 0, ten, ""}, {"land", 0, 0, ten, "a: 1 exact"},
			{"let", 0, 0, ten, ""}, {"land", 0, 0, ten, "b: 4 exact, c: 5 exact, d: 1 exact"},
			{"ask e", 0, 1, ten, "e: 0 cached"}, {"ask f", 0, 1, one, ""}}},
		"who is late keeps what was charged, who was not sent is not charged": {steps: []step{
			{"ask sent", 0, 1, ten, ""}, {"ask unsent", 0, 2, ten, ""}, {"ask later", s, 3, ten, ""},
			{"expire", 2 * s, 0, ten, "sent: 1 failopen, unsent: 2 failopen"},
			{"let", 0, 0, ten, ""}, {"land", 2 * s, 0, ten, ""}, {"let", 0, 0, ten, ""},
			{"land", 2 * s, 0, ten, "later: 3 exact"},
			{"ask rest", 2 * s, 9, ten, ""}, {"let", 0, 0, ten, ""}, {"land", 2 * s, 0, ten, "rest: 6 exact"}}},
		"a key whose asks are all late is not sent": {steps: []step{
			{"ask sent", 0, 1, ten, ""}, {"ask unsent", 0, 1, one, ""}, {"ask later", s, 3, ten, ""},
			{"expire", 2 * s, 0, ten, "sent: 1 failopen, unsent: 1 failopen"},
			{"let", 0, 0, ten, ""}, {"land", 2 * s, 0, ten, ""}, {"let", 0, 0, ten, ""},
			{"land", 2 * s, 0, ten, "later: 3 exact"}}},
		"an answer that is there goes before the deadline": {steps: []step{
			{"ask a", 0, 1, ten, ""}, {"let", 0, 0, ten, ""}, {"done", 0, 0, ten, ""},
			{"expire", time.Hour, 0, ten, "a: 1 exact"}, {"land", 0, 0, ten, ""}}},
		"one key that cannot be decided is no outage": {fault: errItem, mode: store.Closed, steps: []step{
			{"ask a", 0, 1, ten, ""}, {"let", 0, 0, ten, ""}, {"land", 0, 0, ten, "a: 0 closed"}, {"ask b", 0, 1, ten, ""}}},
		"an outage answers all that waits": {fault: errOutage, steps: []step{
			{"ask a", 0, 1, ten, ""}, {"ask b", 0, 2, ten, ""}, {"let", 0, 0, ten, ""}, {"land", 0, 0, ten, "b: 2 failopen"},
			{"land", 0, 0, ten, "a: 1 failopen"},
			{"ask c", 0, 3, ten, "c: 3 failopen"}}},
		"the local store takes over": {fault: errOutage, mode: store.Local, steps: []step{
			{"ask a", 0, 20, ten, ""}, {"let", 0, 0, ten, ""}, {"land", 0, 0, ten, ""}, {"land", 0, 0, ten, "a: 10 local"},
			{"ask b", 0, 1, ten, "b: 0 local"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake()
			f.hold = make(chan struct{}, 10)
			local, err := simredis.NewStore(simredis.Config{})
			if err != nil {
				t.Fatal(err)
			}
			defer local.Close()
			st := newStage(t, f, func(cfg *Config) { cfg.Failure, cfg.Local = test.mode, local })
			f.set(func(f *fake) { f.fault, f.spared = test.fault, "edits" }) // the watcher notices nothing by itself
			for i, step := range test.steps {
				verb, who, _ := strings.Cut(step.what, " ")
				switch verb {
				case "ask":
					st.ask(who, step.after, step.n, step.c)
				case "let":
					f.hold <- struct{}{}
				case "done":
					testkit.Eventually(t, "the batch is back", func() bool { return st.lane.unprocessed[0].done.Load() })
				case "land":
					st.land(step.after)
				case "expire":
					st.lane.Expire(st.start.Add(step.after))
				}
				if got := st.outcomes(); got != step.want {
					t.Fatalf("step %d, %s: %q, want %q", i, step.what, got, step.want)
				}
			}
			close(f.hold)
		})
	}
}

// Asks of GiveBack are not counted as requests, however they are answered.
func TestGiveBackIsNotCounted(t *testing.T) {
	t.Parallel()
	st := newStage(t, newFake(), func(cfg *Config) { cfg.WaitingMax = 1 })
	gives := func() {
		store.RefundUnsent(st.start, st.lane, &store.Refund{Counter: counter("a", fixed(5)), Instant: 1}, store.Exact)
	}
	for range 2 { // the second is refused
		gives()
		gives() // too many wait
		st.land(0)
		if st.lane.inFlight > 0 { // with the release
			st.land(0)
		}
	}
	gives() // is remembered
	gives()
	st.lane.Expire(st.start.Add(time.Hour))
	st.f.set(func(f *fake) { f.fault = errLate })
	store.RefundUnsent(st.start, st.lane, &store.Refund{Counter: counter("b", fixed(5)), Instant: 1}, store.Exact)
	st.land(0)
	n := &st.s.counts
	for what, counted := range map[string]uint64{"decisions": n.decisions.Load(), "remembered": n.remembered.Load(),
		"undecided": n.undecided.Load(), "late": n.late.Load(), "crowded": n.crowded.Load()} {
		if counted > 0 {
			t.Errorf("%d %s are counted", counted, what)
		}
	}
	if st.f.count("sent") != 4 {
		t.Errorf("%d batches were sent, want 3 questions and a release", st.f.count("sent"))
	}
}

// Whatever gathers, fails and comes late: each ask has one answer, those that were decided
// are those that single asks would get in their order, and what was answered otherwise was
// charged as if it had been asked, or not at all.
func TestSeeds(t *testing.T) {
	t.Parallel()
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 1))
		f, now := newFake(), limittest.Epoch
		f.clock = func() int64 { return now }
		st := newStage(t, f, func(cfg *Config) { cfg.RefusalsMax = -1 })
		st.traced = seed%2 == 1
		model := newFake()
		model.clock = f.clock
		limits := limittest.Limits()
		asked := 0
		for step := range 40 {
			f.set(func(*fake) { now += r.Int64N(1_000_000) })
			fails := r.IntN(8) == 0
			f.set(func(f *fake) {
				if f.hold, f.fault = make(chan struct{}), nil; fails {
					f.fault = errItem
				}
			})
			var asks []store.Ask
			for range 1 + r.IntN(6) {
				ask := store.Ask{N: 1 + r.IntN(3)}
				for _, rule := range r.Perm(4)[:1+r.IntN(2)] {
					l := limits[(rule+int(seed))%len(limits)]
					c := store.Counter{Rule: fmt.Sprint(rule), Key: []byte{byte(r.IntN(2))}, Limit: l, Cost: 1}
					if seed%3 == 0 && rule == 0 {
						c.Cost, c.Debt = r.Int64N(5), l.Debt(1)
					}
					ask.Counters = append(ask.Counters, c)
				}
				asks = append(asks, ask)
				st.ask(fmt.Sprint(asked), 0, ask.N, ask.Counters...)
				asked++
			}
			sent := len(st.lane.unprocessed)
			close(f.hold)
			f.set(func(f *fake) { f.hold = nil })
			for len(st.lane.unprocessed) > 0 {
				st.land(0)
			}
			if len(st.got) != asked || sent != 1 {
				t.Fatalf("seed %d, step %d: %d of %d asks have an answer, %d batches were sent", seed, step, len(st.got), asked,
					sent)
			}
			if fails {
				continue
			}
			for _, i := range sequence(asks) {
				got := st.got[len(st.got)-len(asks)+i]
				g := group{Group: store.Group{Counters: asks[i].Counters, N: asks[i].N}}
				model.decide(&g.Group)
				g.replay()
				var want store.Answer
				if g.answer(g.N, st.traced, &want); !reflect.DeepEqual(got, want) {
					t.Fatalf("seed %d, step %d, ask %d:\n got %+v\nwant %+v", seed, step, i, got, want)
				}
			}
		}
	}
}

// sequence is the order in which asks are decided: the first goes alone, and of those that
// gather behind it each with the first for the same counters.
func sequence(asks []store.Ask) []int {
	order := []int{0}
	for i := 1; i < len(asks); i++ {
		if slices.Contains(order, i) {
			continue
		}
		id := string(appendID(nil, asks[i].Counters))
		for k := i; k < len(asks); k++ {
			if string(appendID(nil, asks[k].Counters)) == id {
				order = append(order, k)
			}
		}
	}
	return order
}

// At most batchMax groups go in one batch, and at most WaitingMax asks wait.
func TestBounds(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		asks    int
		batches []int
		crowded uint64
	}{
		{1 + batchMax, []int{1, batchMax}, 0},
		{2 + batchMax, []int{1, batchMax, 1}, 0},
		{3 + batchMax, []int{1, batchMax, 1}, 1},
	} {
		f := newFake()
		f.hold = make(chan struct{})
		st := newStage(t, f, func(cfg *Config) { cfg.WaitingMax = 2 + batchMax })
		for i := range test.asks {
			st.ask("", 0, 1, counter(fmt.Sprint(i), fixed(5)))
		}
		close(f.hold)
		for range test.batches {
			st.land(0)
		}
		if n := st.s.counts.crowded.Load(); len(st.got) != test.asks || n != test.crowded ||
			!slices.Equal(f.groups, test.batches) {
			t.Errorf("%d asks: %d answers, %d too many, batches of %v, want %v", test.asks, len(st.got), n, f.groups,
				test.batches)
		}
	}
}

// Where the backend locks keys, a batch waits for one under way with a group in common, and
// for no other.
func TestLocking(t *testing.T) {
	t.Parallel()
	f := newFake()
	f.hold = make(chan struct{})
	st := newStage(t, f, func(cfg *Config) { cfg.InFlight, cfg.Locking = 3, true })
	for i, step := range []struct {
		key                  string
		unprocessed, waiting int
	}{{"hot", 1, 0}, {"cold", 2, 0}, {"hot", 2, 1}, {"warm", 2, 1}, {"hot", 2, 1}} {
		st.ask(step.key, 0, 1, counter(step.key, fixed(2)))
		if len(st.lane.unprocessed) != step.unprocessed || len(st.lane.queue) != step.waiting {
			t.Errorf("step %d: %d batches in flight, %d wait, want %d and %d", i, len(st.lane.unprocessed),
				len(st.lane.queue), step.unprocessed, step.waiting)
		}
	}
	close(f.hold)
	for len(st.lane.unprocessed) > 0 {
		st.land(0)
	}
	if n := f.count("decide"); n != 3 || len(st.got) != 5 {
		t.Errorf("%d answers of 5 in %d batches, want 3", len(st.got), n)
	}
}

// While a batch is in flight, the next one is sent when it has as many asks as that one.
func TestSizesOfBatches(t *testing.T) {
	t.Parallel()
	f := newFake()
	f.hold = make(chan struct{})
	st := newStage(t, f, func(cfg *Config) { cfg.InFlight = 2 })
	for i, step := range []struct {
		what                 string // an ask, or a batch lands
		unprocessed, waiting int    // batches in flight, and asks that are not sent
	}{
		{"ask", 1, 0}, {"ask", 2, 0}, // one ask each: no ask of a calm store waits
		{"ask", 2, 1}, {"ask", 2, 2}, {"ask", 2, 3}, {"land", 2, 0}, // the third batch has three
		{"land", 1, 0}, {"ask", 1, 1}, {"ask", 1, 2}, {"ask", 2, 0},
		{"ask", 2, 1}, {"land", 1, 1}, {"land", 1, 0}, // nothing else is in flight
		{"land", 0, 0},
	} {
		if step.what == "ask" {
			st.ask("", 0, 1, counter("key", fixed(100)))
		} else {
			f.hold <- struct{}{}
			st.land(0)
		}
		waiting := 0
		for _, b := range st.lane.queue {
			waiting += b.pending()
		}
		if len(st.lane.unprocessed) != step.unprocessed || waiting != step.waiting {
			t.Fatalf("step %d, %s: %d batches in flight and %d asks not sent, want %d and %d", i, step.what,
				len(st.lane.unprocessed), waiting, step.unprocessed, step.waiting)
		}
	}
	close(f.hold)
}

// hourly is a queue of four in which one leaves each hour.
func hourly(key string) store.Counter {
	return counter(key, limittest.Must(limit.Config{Algorithm: limit.Leaky, Capacity: 4, FillRate: 0.000278}))
}

// A batch that nobody waits for any longer is sent for the places that it gives back,
// and those behind it do not wait for that.
func TestReleasesOutliveAsks(t *testing.T) {
	t.Parallel()
	f := newFake()
	f.hold = make(chan struct{})
	st := newStage(t, f, nil)
	q := hourly("k")
	st.ask("under way", 0, 1, counter("k", fixed(5)))
	st.ask("a", 0, 1, counter("k", fixed(5)))
	for range 1 + batchMax { // the last begins another batch
		st.lane.Refund(st.start, &q, 5, store.Exact)
	}
	st.ask("b", 0, 1, counter("k", fixed(5)))
	st.lane.Expire(st.start.Add(timeoutMax))
	if len(st.got) != 3 || len(st.lane.queue) != 2 || !st.lane.Next().IsZero() {
		t.Errorf("%d of 3 late asks answered, %d batches left, want the 2 that give back", len(st.got), len(st.lane.queue))
	}
	for range releasesMax * batchMax {
		st.lane.Refund(st.start, &q, 5, store.Exact)
	}
	if n := st.s.counts.unreleased.Load(); len(st.lane.queue) != releasesMax || n == 0 {
		t.Errorf("%d batches wait, %d places stayed booked, want at most %d batches", len(st.lane.queue), n, releasesMax)
	}
	close(f.hold)
	for len(st.lane.unprocessed) > 0 {
		st.land(0)
	}
	if n := f.count("release"); n <= (releasesMax-1)*batchMax {
		t.Errorf("%d places were given back", n)
	}
}

// Conditions distinguish groups.
func TestGroupsAreApart(t *testing.T) {
	t.Parallel()
	ten, queue := fixed(10), hourly("k").Limit
	seen := map[string]string{}
	for name, counters := range map[string][]store.Counter{
		"plain":   {{Rule: "r", Key: []byte("k"), Limit: ten, Cost: 1}},
		"cost":    {{Rule: "r", Key: []byte("k"), Limit: ten, Cost: 2}},
		"reserve": {{Rule: "r", Key: []byte("k"), Limit: ten, Cost: 1, Reserve: 1}},
		"limit":   {{Rule: "r", Key: []byte("k"), Limit: fixed(11), Cost: 1}},
		"soft":    {{Rule: "r", Key: []byte("k"), Limit: limittest.Soft(ten.Config(), 0.5, 10), Cost: 1}},
		"key":     {{Rule: "r", Key: []byte("k1"), Limit: ten, Cost: 1}},
		"rule":    {{Rule: "r1", Key: []byte("k"), Limit: ten, Cost: 1}},
		"queue":   {{Rule: "r", Key: []byte("k"), Limit: queue, Cost: 1}},
		"patient": {{Rule: "r", Key: []byte("k"), Limit: queue, Cost: 1, MaxDelay: time.Second}},
		"two":     {{Rule: "r", Key: []byte("k"), Limit: ten, Cost: 1}, {Rule: "s", Limit: ten, Cost: 1}},
		"turned":  {{Rule: "s", Limit: ten, Cost: 1}, {Rule: "r", Key: []byte("k"), Limit: ten, Cost: 1}},
		"off after": {{Rule: "r", Key: []byte("k"), Limit: ten, Cost: 1},
			{Rule: "o", Limit: limittest.Must(limit.Config{Algorithm: limit.Off}), Cost: 1}},
	} {
		id := string(appendID(nil, counters))
		if other, known := seen[id]; known {
			t.Errorf("%s is the same group as %s", name, other)
		}
		seen[id] = name
	}
	impatient := counter("k", ten)
	impatient.MaxDelay = time.Hour // means nothing without a queue
	if got := seen[string(appendID(nil, []store.Counter{impatient}))]; got != "plain" {
		t.Errorf("with a longest delay and no queue it is the ask %q, want plain", got)
	}
}

// A store that goes and comes says so once, asks nothing meanwhile but whether it is
// back, and forgets its refusals.
func TestOutage(t *testing.T) {
	t.Parallel()
	f, log := newFake(), new(testkit.Log)
	st := newStage(t, f, func(cfg *Config) { cfg.Log = log.Logger() })
	st.ask("refused", 0, 6, counter("k", fixed(5)))
	st.land(0)
	f.set(func(f *fake) { f.fault = errOutage })
	testkit.Eventually(t, "an idle store notices", func() bool { return st.s.Mode() == store.FailOpen })
	st.land(0)
	decided := f.count("decide")
	for _, err := range []error{
		second(st.s.Forget("r", nil)), second(st.s.Add("r", nil, 1)), second(st.s.Lease("l", "a", time.Second)),
		st.s.Release("l", "a"),
		second(st.s.Read("d")), third(st.s.CompareAndSet("d", 0, nil)),
	} {
		if err == nil || !strings.Contains(err.Error(), "fake is unavailable") {
			t.Errorf("while it is away: %v", err)
		}
	}
	st.got = nil
	if !st.ask("away", 0, 9, counter("k", fixed(5))) || st.got[0].Granted != 9 || f.count("decide") != decided {
		t.Errorf("while it is away: %+v", st.got)
	}
	f.set(func(f *fake) { f.fault = errRights })
	testkit.Eventually(t, "it logs what to change",
		func() bool { return log.Count("Fake is misconfigured, staying in fail-open mode") == 1 })
	f.set(func(f *fake) { f.fault = nil })
	testkit.Eventually(t, "it is back", func() bool { return st.s.Mode() == store.Exact })
	st.land(0)
	if st.ask("back", 0, 1, counter("k", fixed(5))) {
		t.Error("a refusal is remembered")
	}
	st.land(0)
	for _, line := range []string{"Fake connection lost, entering fail-open mode",
		"Fake reconnected, resuming normal operation"} {
		testkit.Eventually(t, line, func() bool { return log.Count(line) > 0 })
		if n := log.Count(line); n != 1 {
			t.Errorf("%q is logged %d times", line, n)
		}
	}
}

// When the store goes because it is silent, nobody waits for it any longer, and nothing that
// was sent keeps a helper when it is back. When a connection breaks others may still answer.
func TestSentWhenItGoes(t *testing.T) {
	t.Parallel()
	for err, want := range map[error]int{errLate: 1, errOutage: 0} {
		f := newFake()
		f.spared = "probe edits"
		f.hold = make(chan struct{})
		st := newStage(t, f, func(cfg *Config) { cfg.InFlight, cfg.Misses = 2, 1 })
		st.ask("a", 0, 1, counter("a", fixed(5)))
		st.ask("b", 0, 1, counter("b", fixed(5)))
		f.set(func(f *fake) { f.fault = err })
		testkit.Eventually(t, "both are sent", func() bool { return f.count("sent") == 2 })
		f.hold <- struct{}{}
		testkit.Eventually(t, "it is back", func() bool {
			return f.count("decide") > 0 && st.s.Mode() == store.Exact &&
				f.count("probe") > 1
		})
		if want == 0 {
			f.hold <- struct{}{} // there is somebody who waits for it
		}
		testkit.Eventually(t, "both are answered", func() bool {
			select {
			case do := <-st.posted:
				do(st.start)
			default:
			}
			return len(st.got) == 2
		})
		if n := f.count("canceled"); n != want || st.got[0].Mode != store.FailOpen || st.got[1].Mode != store.FailOpen {
			t.Errorf("%v: %d calls are ended, %+v", err, n, st.got)
		}
	}
}

func second[T any](_ T, err error) error        { return err }
func third[T, U any](_ T, _ U, err error) error { return err }

// When the store goes, asks that were not sent are answered in their order, a part in each
// turn.
func TestGivenUpInTurns(t *testing.T) {
	t.Parallel()
	f := newFake()
	f.hold = make(chan struct{})
	st := newStage(t, f, nil)
	const waiting = 3*turnMax + 1
	for i := range waiting + 1 { // the first is sent
		st.ask(strconv.Itoa(i), 0, 1, counter(strconv.Itoa(i), fixed(5)))
	}
	f.set(func(f *fake) { f.fault = errOutage })
	for st.s.Mode() == store.Exact { // the watcher of edits notices it, too
		st.s.failed(time.Now(), time.Now(), store.Fault{}, errOutage)
	}
	for len(st.got) < waiting {
		before := len(st.got)
		if st.land(0); len(st.got) > before+turnMax {
			t.Errorf("a turn answers %d", len(st.got)-before)
		}
	}
	for i, name := range st.names {
		if name != strconv.Itoa(i+1) || st.got[i].Mode != store.FailOpen {
			t.Errorf("%d is the answer to %s, %v", i, name, st.got[i].Mode)
		}
	}
}

// A permanent fault is logged at the start, and later once a minute.
func TestMisconfigured(t *testing.T) {
	t.Parallel()
	f, log := newFake(), new(testkit.Log)
	f.fault = errRights
	st := newStage(t, f, func(cfg *Config) { cfg.Log = log.Logger() })
	if st.s.Misconfigured() != error(errRights) || st.s.Mode() != store.FailOpen {
		t.Errorf("%v, mode %v", st.s.Misconfigured(), st.s.Mode())
	}
	const line = "Fake is misconfigured, staying in fail-open mode"
	testkit.Eventually(t, line, func() bool { return log.Count(line) > 0 })
	from := f.count("probe")
	testkit.Eventually(t, "three more attempts", func() bool { return f.count("probe") > from+3 })
	st.s.reportMisconfigured(time.Now().Add(time.Minute), errRights)
	st.s.reportMisconfigured(time.Now().Add(time.Minute), errRights)
	if n := log.Count(line); n != 2 || !strings.Contains(log.String(), "level=ERROR") {
		t.Errorf("logged %d times in two minutes:\n%s", n, log.String())
	}
}

// Changes of documents are reported; edits and changes of rules forget refusals.
func TestWatch(t *testing.T) {
	t.Parallel()
	f := newFake()
	st := newStage(t, f, nil)
	var mu sync.Mutex
	var seen []string
	st.s.Watch("d", func(doc store.Document) {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, fmt.Sprintf("%d %s", doc.Version, doc.Body))
	})
	sees := func(want string) {
		t.Helper()
		testkit.Eventually(t, "the report of "+want, func() bool {
			mu.Lock()
			defer mu.Unlock()
			return len(seen) > 0 && seen[len(seen)-1] == want
		})
	}
	sees("0 ")
	if doc, written, err := st.s.CompareAndSet("d", 0, []byte("1")); err != nil || !written || doc.Version != 1 {
		t.Errorf("%+v, %v, %v", doc, written, err)
	}
	sees("1 1")
	if doc, written, err := st.s.CompareAndSet("d", 0, []byte("2")); err != nil || written || doc.Version != 1 {
		t.Errorf("of an old version: %+v, %v, %v", doc, written, err)
	}
	read := f.count("read")
	from := f.count("marks")
	testkit.Eventually(t, "it looks again", func() bool { return f.count("marks") > from+2 })
	if n := f.count("read"); n != read {
		t.Errorf("read %d times without a change", n-read)
	}
	refuse := func() {
		st.ask("refused", 0, 9, counter("k", fixed(5)))
		st.land(0)
		if !st.ask("again", 0, 1, counter("k", fixed(5))) {
			t.Error("a refusal is not remembered")
		}
	}
	refuse()
	f.set(func(f *fake) { f.edits++ })
	epoch := st.s.epoch.Load()
	testkit.Eventually(t, "the edit is noticed", func() bool { return st.s.epoch.Load() > epoch })
	refuse()
	if _, err := st.s.Forget("r", []byte("k")); err != nil {
		t.Error(err)
	}
	if st.ask("forgotten", 0, 1, counter("k", fixed(5))) {
		t.Error("a refusal is remembered after an edit")
	}
	st.land(0)
}

// An ask in memory or by the failure mode, and joining a group that gathers, takes
// no memory.
func TestAskAllocates(t *testing.T) {
	f := newFake()
	f.hold = make(chan struct{})
	st := newStage(t, f, nil)
	ask, ans := store.Ask{N: 1, Counters: []store.Counter{counter("k", fixed(5))}}, store.Answer{}
	done := func(time.Time, *store.Answer) {}
	for range 5000 { // the first are sent, these gather
		st.lane.Ask(st.start, &ask, &ans, done)
	}
	if n := testing.AllocsPerRun(1000, func() { st.lane.Ask(st.start, &ask, &ans, done) }); n != 0 {
		t.Errorf("joining a group: %v allocations", n)
	}
	close(f.hold)
}

// BenchmarkAsk is what an ask costs its loop when it joins a group.
func BenchmarkAsk(b *testing.B) {
	f := newFake()
	f.hold = make(chan struct{})
	st := newStage(b, f, func(cfg *Config) { cfg.WaitingMax = 1 << 40 })
	ask, ans := store.Ask{N: 1, Counters: []store.Counter{counter("client-1", fixed(5))}}, store.Answer{}
	done := func(time.Time, *store.Answer) {}
	b.ReportAllocs()
	for b.Loop() {
		st.lane.Ask(st.start, &ask, &ans, done)
	}
	close(f.hold)
}

// A store that is available again is used within a second, however long it was not, and however
// many outages there were before.
func TestBackWithinASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		st := newStage(t, f, nil)
		for _, outage := range []time.Duration{time.Millisecond, time.Second, 0, time.Minute} {
			f.set(func(f *fake) { f.fault = errOutage })
			time.Sleep(2 * pollPause)
			if st.s.Mode() == store.Exact {
				t.Fatalf("before %v: the outage is not noticed", outage)
			}
			time.Sleep(outage)
			f.set(func(f *fake) { f.fault = nil })
			time.Sleep(time.Second)
			if st.s.Mode() != store.Exact {
				t.Errorf("a second after an outage of %v the store is not used", outage)
			}
		}
	})
}

// A master that decided alone counted apart from the store, so the lane says that the store did
// not decide.
func TestDecidedAlone(t *testing.T) {
	for _, alone := range []bool{false, true} {
		g := group{Group: store.Group{N: 1, Granted: 1, Alone: alone, Counters: []store.Counter{counter("k", fixed(5))}}}
		g.At[0] = limittest.Epoch
		var ans store.Answer
		g.replay()
		if g.answer(1, false, &ans); ans.Granted != 1 || (ans.At == 0) != alone {
			t.Errorf("alone %v: %+v", alone, ans)
		}
	}
}
