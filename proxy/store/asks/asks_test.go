package asks_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"weir/internal/test/testkit"
	"weir/proxy/limit"
	"weir/proxy/limit/limittest"
	"weir/proxy/store"
	"weir/proxy/store/asks"
	"weir/proxy/store/simredis"
)

// batch is a random one. Some counters are off, and none of a group alone.
func batch(r *rand.Rand) (refunds []store.Refund, groups []*store.Group) {
	limits := limittest.Limits()
	counter := func(rule int) store.Counter {
		l := limits[r.IntN(len(limits))]
		one := limittest.RandomAsk(r, l)
		key := make([]byte, r.IntN(3)*r.IntN(100))
		for i := range key {
			key[i] = byte(r.Uint32())
		}
		c := store.Counter{Rule: fmt.Sprint("rule", rule), Key: key, Limit: l, Cost: one.Cost, Reserve: one.Reserve,
			MaxDelay: one.MaxDelay}
		if r.IntN(4) == 0 {
			c.Debt = l.Debt(r.Int64N(200))
		}
		return c
	}
	for range r.IntN(3) {
		refunds = append(refunds, store.Refund{Counter: counter(0), Instant: r.Int64N(1 << 53)})
	}
	off := limittest.Must(limit.Config{Algorithm: limit.Off})
	for range r.IntN(6) {
		g := &store.Group{N: 1 + r.IntN(5)}
		for i, rule := range r.Perm(store.CountersMax)[:1+r.IntN(store.CountersMax)] {
			c := counter(rule)
			if i > 0 && r.IntN(6) == 0 {
				c = store.Counter{Rule: c.Rule, Limit: off}
			}
			g.Counters = append(g.Counters, c)
		}
		groups = append(groups, g)
	}
	return refunds, groups
}

func limited(counters []store.Counter) (some []store.Counter) {
	for _, c := range counters {
		if c.Limit.Algorithm() != limit.Off {
			some = append(some, c)
		}
	}
	return some
}

// same compares what counters say, and the limits that they point to.
func same(a, b []store.Counter) bool {
	for i := range a {
		if len(b) != len(a) || *a[i].Limit != *b[i].Limit || !bytes.Equal(a[i].Key, b[i].Key) {
			return false
		}
		a, b := a[i], b[i]
		a.Limit, b.Limit, a.Key, b.Key = nil, nil, nil, nil
		if !reflect.DeepEqual(a, b) {
			return false
		}
	}
	return true
}

// What is asked arrives, and what is answered comes back as a store has decided it.
func TestRoundTrip(t *testing.T) {
	table := testkit.Must(simredis.New(simredis.Config{}))(t)
	var q asks.Batch
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		refunds, groups := batch(r)
		if err := q.Parse(asks.AppendBatch(nil, refunds, groups)); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if len(q.Asks) != len(groups) || len(q.Refunds) != len(refunds) {
			t.Fatalf("seed %d: %d asks and %d releases of %d and %d arrive", seed, len(q.Asks), len(q.Refunds), len(groups),
				len(refunds))
		}
		for i, r := range q.Refunds {
			if r.Instant != refunds[i].Instant || !same([]store.Counter{r.Counter}, []store.Counter{refunds[i].Counter}) {
				t.Errorf("seed %d: %+v arrives as %+v", seed, refunds[i], r)
			}
		}
		answer := asks.AppendHead(nil, store.Local, len(q.Asks))
		var want []store.Answer
		for i, ask := range q.Asks {
			if ask.N != groups[i].N || !ask.WantsPrior || !same(ask.Counters, limited(groups[i].Counters)) {
				t.Fatalf("seed %d: %+v arrives as %+v", seed, groups[i], ask)
			}
			var ans store.Answer
			table.Take(time.UnixMicro(limittest.Epoch+int64(seed)*1e6), &ask, &ans)
			if (seed+uint64(i))%2 == 0 {
				ans.Mode = store.Local
			}
			answer, want = asks.AppendAnswer(answer, &ans), append(want, ans)
		}
		mode, err := asks.ParseAnswer(answer, groups)
		if err != nil || mode != store.Local {
			t.Fatalf("seed %d: mode %v, %v", seed, mode, err)
		}
		for i, g := range groups {
			compare(t, g, &want[i])
		}
	}
}

// compare holds what came back about a group against the answer that was sent.
func compare(t *testing.T, g *store.Group, want *store.Answer) {
	t.Helper()
	if g.Err != nil || g.Granted != want.Granted {
		t.Fatalf("%d of %d are granted, %v, want %d", g.Granted, g.N, g.Err, want.Granted)
	}
	if g.Alone != (want.Mode == store.Local) {
		t.Errorf("decided alone: %v, in mode %v", g.Alone, want.Mode)
	}
	at := 0
	for i := range g.Counters {
		c, s := &g.Counters[i], g.Before[i].Clone()
		if c.Limit.Algorithm() == limit.Off {
			continue
		}
		d := c.Decide(g.At[i], &s, int64(g.N), int64(g.Granted))
		if d != want.Decisions[at] {
			t.Fatalf("%v: %+v is worked out, want %+v", c.Limit.Config(), d, want.Decisions[at])
		}
		at++
	}
}

// one is a question of one ask of one counter: version at 0, asks at 3, n at 5, the number
// of counters at 9, the rule at 10, the key at 13, the algorithm at 18, the permits at 19.
func one() (question []byte, groups []*store.Group) {
	g := &store.Group{N: 2, Counters: []store.Counter{{Rule: "r", Key: []byte("k"), Cost: 1,
		Limit: limittest.Must(limit.Config{Algorithm: limit.Fixed, Limit: 5, Window: 60})}}}
	return asks.AppendBatch(nil, nil, []*store.Group{g}), []*store.Group{g}
}

// A question that is not well-formed is refused with the offset of what is wrong.
func TestFaults(t *testing.T) {
	whole, _ := one()
	two := append([]byte(nil), whole...)
	two[9] = 2
	two = append(two, whole[10:]...)
	with := func(at int, b ...byte) []byte {
		changed := append([]byte(nil), whole...)
		copy(changed[at:], b)
		return changed
	}
	for name, test := range map[string]struct {
		question []byte
		offset   int
		problem  string
	}{
		"nothing":            {nil, 0, "too early"},
		"the end is missing": {whole[:len(whole)-1], len(whole) - 8, "too early"},
		"something follows":  {append(with(0), 0), len(whole), "should end here"},
		"no requests":        {with(5, 0), 5, "1 to 16777216 requests"},
		"too many requests":  {with(5, 1, 0, 0, 1), 5, "1 to 16777216 requests"},
		"no counters":        {with(9, 0), 9, "1 to 9 counters"},
		"ten counters":       {with(9, 10), 9, "1 to 9 counters"},
		"a rule without end": {with(10, 255), 12, "too early"},
		"a key without end":  {with(13, 255, 255, 255, 255), 17, "too early"},
		"no algorithm":       {with(18, 0), 18, "no limit"},
		"off":                {with(18, byte(limit.Off)), 18, ""},
		"negative permits":   {with(26, 255), 19, "must be 0 to"},
		"no debt":            {append(with(18, byte(limit.Fixed)|1<<7), make([]byte, 8)...), 83, "must be a debt of 5 to"},
		"debt is missing":    {with(18, byte(limit.Fixed)|1<<7), 83, "too early"},
		"permits and burst":  {with(19, 6), 18, "no limit"},
		"the same key twice": {two, 10 + len(whole) - 10, "another counter"},
		"more releases":      {with(1, 1), 14, ""},
	} {
		var q asks.Batch
		err := q.Parse(test.question)
		fault, ok := errors.AsType[*asks.MessageError](err)
		if !ok || fault.Offset != test.offset && test.problem != "" || !strings.Contains(fault.Problem, test.problem) {
			t.Errorf("%s: %v, want byte %d: … %s …", name, err, test.offset, test.problem)
		}
	}
	var q asks.Batch
	if err := q.Parse(with(0, 2)); !errors.Is(err, asks.VersionError(2)) {
		t.Errorf("another version: %v", err)
	}
}

// An answer that does not belong to the question is refused whole.
func TestWrongAnswers(t *testing.T) {
	_, groups := one()
	whole := asks.AppendHead(nil, store.Exact, 1)
	whole = asks.AppendAnswer(whole, &store.Answer{Granted: 2, Prior: []store.PriorState{{At: 1}}})
	if _, err := asks.ParseAnswer(whole, groups); err != nil {
		t.Fatal(err)
	}
	with := func(at int, b ...byte) []byte {
		changed := append([]byte(nil), whole...)
		copy(changed[at:], b)
		return changed
	}
	for name, answer := range map[string][]byte{
		"nothing": nil, "HTML": []byte("<html>"), "cut off": whole[:len(whole)-1], "more": append(with(0), 0),
		"no such mode": with(1, 9),
		"two answers":  with(2, 2), "no answer": asks.AppendHead(nil, store.Exact, 0), "no such mode of one": with(4, 9),
		"three granted": with(5, 3), "no state": with(9, 0), "two states": with(9, 2),
		"undecided with a state": with(4, byte(store.FailOpen)),
		"a short state":          with(18, 31), "a long state": with(18, 255, 255, 255, 255),
	} {
		if _, err := asks.ParseAnswer(answer, groups); err == nil {
			t.Errorf("%s: is taken", name)
		}
	}
	undecided := asks.AppendAnswer(asks.AppendHead(nil, store.Exact, 1), &store.Answer{Mode: store.Closed})
	if mode, err := asks.ParseAnswer(undecided, groups); err != nil || mode != store.Exact ||
		groups[0].Err != asks.ErrUndecided {
		t.Errorf("an ask that was not decided: %v, %v, %v", mode, err, groups[0].Err)
	}
}

// Any bytes are read without a panic; those that are a question are written the same again.
func FuzzQuestion(f *testing.F) {
	for seed := range uint64(20) {
		refunds, groups := batch(rand.New(rand.NewPCG(seed, 1)))
		f.Add(asks.AppendBatch(nil, refunds, groups))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var q asks.Batch
		if q.Parse(b) != nil {
			return
		}
		var groups []*store.Group
		for _, ask := range q.Asks {
			groups = append(groups, &store.Group{Counters: ask.Counters, N: ask.N})
		}
		if again := asks.AppendBatch(nil, q.Refunds, groups); !bytes.Equal(again, b) {
			t.Errorf("%x is written as %x", b, again)
		}
	})
}

func FuzzAnswer(f *testing.F) {
	f.Add(asks.AppendAnswer(asks.AppendHead(nil, store.Exact, 1),
		&store.Answer{Granted: 2, Prior: []store.PriorState{{At: 1}}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		_, groups := one()
		if _, err := asks.ParseAnswer(b, groups); err == nil && groups[0].Granted > 2 {
			t.Errorf("%d of 2 are granted", groups[0].Granted)
		}
	})
}

// Reading a question and writing its answer costs no memory but for the rules' names.
func TestAllocations(t *testing.T) {
	question, _ := one()
	var q asks.Batch
	ans := store.Answer{Granted: 2, Prior: []store.PriorState{{At: 1}}}
	var out []byte
	if n := testing.AllocsPerRun(100, func() {
		if err := q.Parse(question); err != nil {
			t.Fatal(err)
		}
		out = asks.AppendAnswer(asks.AppendHead(out[:0], store.Exact, 1), &ans)
	}); n > 1 {
		t.Errorf("%v allocations", n)
	}
}

func Example() {
	l, _ := limit.NewFixed(5, time.Minute)
	g := &store.Group{N: 7, Counters: []store.Counter{{Rule: "global", Limit: &l, Cost: 1}}}
	question := asks.AppendBatch(nil, nil, []*store.Group{g})

	var q asks.Batch // at the master
	fmt.Println(q.Parse(question), q.Asks[0].N, q.Asks[0].Counters[0].Rule)
	answer := asks.AppendHead(nil, store.Exact, 1)
	answer = asks.AppendAnswer(answer, &store.Answer{Granted: 5, Prior: []store.PriorState{{At: 1}}})

	mode, err := asks.ParseAnswer(answer, []*store.Group{g})
	fmt.Println(mode, err, g.Granted, binary.Size(answer))
	// Output:
	// <nil> 7 global
	// exact <nil> 5 54
}
