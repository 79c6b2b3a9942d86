package lane

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"weir/proxy/limit"
	"weir/proxy/limit/limittest"
	"weir/proxy/store"
)

// The memory of refusals is bounded.
func TestRefusalsBound(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_768_780_800, 0)
	r := refusals{max: 2}
	refused := func(key string, epoch uint64) (remembered bool) {
		// remembered for a second
		c := counter(key, limittest.Must(limit.Config{Algorithm: limit.Fixed, Limit: 1, Window: 10}))
		if strings.HasPrefix(key, "spare") {
			c.Rule += " given back"
		}
		g := new(group)
		g.fill(appendID(nil, []store.Counter{c}), []store.Counter{c})
		g.N, g.At[0] = 1, now.UnixMicro()
		c.Limit.Take(g.At[0], &g.Before[0], 1, 1)
		g.replay()
		r.remember(now, epoch, &batch{groups: []*group{g}, sent: now, landed: now})
		var ans store.Answer
		return r.answer(now, epoch, []byte(g.id), &ans)
	}
	for _, step := range []struct {
		key   string
		after time.Duration
		epoch uint64 // now; it was 0 when the store was asked
		want  bool
	}{
		{"a", 0, 0, true},
		{"b", 0, 0, true},
		{"c", 0, 0, false},                    // full
		{"c", time.Second, 0, true},           // a and b are over
		{"d", 10 * time.Millisecond, 0, true}, // there was room for two
		{"spare 1", time.Second, 0, true},     // c and d are over
		{"spare 2", 0, 0, true},               // full
		{"e", sweepPause, 0, true},            // instead of the answers to GiveBack
		{"f", 0, 0, true},                     // likewise
		{"spare 3", sweepPause, 0, false},     // full of others
		{"g", 0, 1, false},                    // all is forgotten, and g was refused before
	} {
		now = now.Add(step.after)
		if got := refused(step.key, step.epoch); got != step.want {
			t.Errorf("%s after %v: remembered %v, want %v", step.key, step.after, got, step.want)
		}
	}
}

// A refusal is remembered for a tenth of its time to retry, and until one of the keys that refused
// is charged on this lane.
func TestRefusalsEnd(t *testing.T) {
	const s = time.Second
	bucket := limittest.Must(limit.Config{Algorithm: limit.Token, Capacity: 10, FillRate: .1})
	of := func(key string, cost, reserve int64) store.Counter {
		c := counter(key, bucket)
		c.Cost, c.Reserve = cost, reserve
		return c
	}
	loose, look := counter("loose", fixed(1000)), of("k", 0, 0)
	loose.Rule = "global"
	late := func(cost int64) store.Counter {
		c := of("k", cost, 0)
		c.Debt = bucket.Debt(9)
		return c
	}
	type ask struct {
		name  string
		after time.Duration
		sent  bool // the store is asked
		want  int
		of    []store.Counter
	}
	for name, asks := range map[string][]ask{
		"a tenth": {{"use", 0, true, 1, []store.Counter{of("k", 10, 0)}},
			{"refused", 0, true, 0, []store.Counter{of("k", 8, 0)}}, // 80 s
			{"before", 8*s - 1, false, 0, []store.Counter{of("k", 8, 0)}},
			{"then", 8 * s, true, 0, []store.Counter{of("k", 8, 0)}},
			{"before", 15*s + 200*time.Millisecond - 1, false, 0, []store.Counter{of("k", 8, 0)}}},
		"a charge": {{"use", 0, true, 1, []store.Counter{of("k", 7, 0)}},
			{"refused", 0, true, 0, []store.Counter{of("k", 8, 0)}},
			{"low", 0, true, 0, []store.Counter{of("k", 1, 5)}}, {"low", 0, false, 0, []store.Counter{of("k", 1, 5)}},
			{"looks", 0, true, 1, []store.Counter{look}}, {"other", 0, true, 1, []store.Counter{of("other", 1, 0)}},
			{"low", 0, false, 0, []store.Counter{of("k", 1, 5)}}, {"charge", 0, true, 1, []store.Counter{of("k", 1, 0)}},
			{"low", 0, true, 0, []store.Counter{of("k", 1, 5)}}, {"refused", 0, true, 0, []store.Counter{of("k", 8, 0)}}},
		"a key that admitted": {{"use", 0, true, 1, []store.Counter{of("k", 7, 0), loose}},
			{"refused", 0, true, 0, []store.Counter{of("k", 8, 0), loose}},
			{"other", 0, true, 1, []store.Counter{loose}},
			{"refused", 0, false, 0, []store.Counter{of("k", 8, 0), loose}},
			{"alone", 0, true, 1, []store.Counter{of("k", 1, 0)}},
			{"refused", 0, true, 0, []store.Counter{of("k", 8, 0), loose}}},
		"charges with debt": {{"look", 0, true, 1, []store.Counter{late(0)}}, {"late", 0, true, 0, []store.Counter{late(11)}},
			{"look", 0, true, 0, []store.Counter{late(0)}}, {"look", 0, false, 0, []store.Counter{late(0)}},
			{"late", 0, true, 0, []store.Counter{late(8)}}, {"late", 0, true, 0, []store.Counter{late(8)}},
			{"look", 0, true, 0, []store.Counter{late(0), loose}}, {"look", 0, false, 0, []store.Counter{late(0), loose}},
			{"look", 17*s + 999*time.Millisecond, false, 0, []store.Counter{late(0), loose}}, // 180 s
			{"look", 18 * s, true, 0, []store.Counter{late(0)}}},
	} {
		synctest.Test(t, func(t *testing.T) {
			st := newStage(t, newFake(), nil)
			for i, a := range asks {
				time.Sleep(a.after - time.Since(st.start))
				sent := !st.ask(a.name, a.after, 1, a.of...)
				if sent {
					st.land(a.after)
				}
				if got := st.got[len(st.got)-1]; sent != a.sent || got.Granted != a.want {
					t.Errorf("%s, step %d (%s): sent %v, %+v", name, i, a.name, sent, got)
				}
			}
		})
	}
}

// In one batch a charge ends the refusals of groups before it, and an error those of its keys. What
// no refusal refers to is not kept.
func TestRefusalsInOneBatch(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_768_780_800, 0)
	bucket := limittest.Must(limit.Config{Algorithm: limit.Token, Capacity: 10, FillRate: .1})
	r := refusals{max: 9}
	var charged limit.State
	bucket.Take(now.UnixMicro(), &charged, 7, 1)
	decided := func(cost int64, granted int, err error) *group {
		c := counter("k", bucket)
		c.Cost = cost
		g := new(group)
		g.fill(appendID(nil, []store.Counter{c}), []store.Counter{c})
		g.N, g.Granted, g.Err, g.At[0], g.Before[0] = 1, granted, err, now.UnixMicro(), charged
		g.replay()
		for range granted {
			g.skip(1)
		}
		return g
	}
	for _, test := range []struct {
		groups []*group
		want   int
	}{
		{[]*group{decided(8, 0, nil), decided(9, 0, nil)}, 2},
		{[]*group{decided(8, 0, nil), decided(2, 1, nil)}, 0},
		{[]*group{decided(2, 1, nil), decided(8, 0, nil)}, 1},
		{[]*group{decided(8, 0, nil), decided(2, 0, errLate)}, 0},
		{[]*group{decided(8, 0, nil), decided(8, 0, nil)}, 1},
	} {
		r.remember(now, 0, &batch{groups: test.groups, sent: now, landed: now})
		remembered := 0
		for _, cost := range []int64{8, 9} {
			if r.answer(now, 0, []byte(decided(cost, 0, nil).id), new(store.Answer)) {
				remembered++
			}
		}
		if remembered != test.want {
			t.Errorf("%d remembered, want %d", remembered, test.want)
		}
		for _, cost := range []int64{8, 9} { // all are over
			r.answer(now.Add(time.Hour), 0, []byte(decided(cost, 0, nil).id), new(store.Answer))
		}
		if len(r.byID)+len(r.byKey) > 0 {
			t.Errorf("%d refusals and %d keys are kept", len(r.byID), len(r.byKey))
		}
	}
}

// BenchmarkRemembered is what a refusal from memory costs its loop.
func BenchmarkRemembered(b *testing.B) {
	st := newStage(b, newFake(), nil)
	st.ask("first", 0, 6, counter("client-1", fixed(5)))
	st.land(0)
	ask, ans := store.Ask{N: 1, Counters: []store.Counter{counter("client-1", fixed(5))}}, store.Answer{}
	b.ReportAllocs()
	for b.Loop() {
		if now := st.lane.Ask(st.start, &ask, &ans, nil); !now || ans.Mode != store.Cached {
			b.Fatalf("answered at once: %t, %v; want %v", now, ans.Mode, store.Cached)
		}
	}
}
