package lane

import (
	"strings"
	"testing"
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
		c := counter(key, limittest.Must(limit.Config{Algorithm: limit.Fixed, Limit: 1, Window: 1}))
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

// BenchmarkRemembered is what a refusal from memory costs its loop.
func BenchmarkRemembered(b *testing.B) {
	st := newStage(b, newFake(), nil)
	st.ask("first", 0, 6, counter("client-1", fixed(5)))
	st.land(0)
	ask, ans := store.Ask{N: 1, Counters: []store.Counter{counter("client-1", fixed(5))}}, store.Answer{}
	b.ReportAllocs()
	for b.Loop() {
		if !st.lane.Ask(st.start, &ask, &ans, nil) || ans.Mode != store.Cached {
			b.Fatal("not remembered")
		}
	}
}
