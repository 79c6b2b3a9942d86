package protect

import (
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// cached is one with a cache of n keys, which is flushed after 10 s.
func cached(n int) *Scenario {
	sit := one()
	sit.Keys = n
	return sit
}

func TestCache(t *testing.T) {
	c := cached(3).newCache()
	c.fill(1, 9*s) // before the flush, which forgets it
	c.fill(2, 12*s)
	c.fill(2, 14*s) // another request for it
	for _, step := range []struct {
		key  int
		at   time.Duration
		want bool
	}{
		{1, -s, true}, {3, 10*s - 1, true}, {1, 10 * s, false}, {2, 12*s - 1, false}, {2, 12 * s, true},
		{2, 20 * s, true}, {3, 30 * s, false},
	} {
		if got := c.has(step.key, step.at); got != step.want {
			t.Errorf("key %d at %v: %t, want %t", step.key, step.at, got, step.want)
		}
	}
	if one().newCache() != nil {
		t.Error("a target without keys has a cache")
	}
}

// Keys are from 1 to their number, and the second is drawn log(3/2)/log(2) as often as the first.
func TestKeyLaw(t *testing.T) {
	sit := cached(1000)
	if low, high := sit.key(0), sit.key(math.Nextafter(1, 0)); low != 1 || high != 1000 {
		t.Errorf("keys are from %d to %d", low, high)
	}
	count := make(map[int]float64)
	chance := rand.New(rand.NewPCG(1, 1))
	const n = 1_000_000
	for range n {
		count[sit.key(chance.Float64())]++
	}
	for _, k := range []float64{1, 2, 3, 10} {
		want := math.Log(1+1/k) / math.Log(1001)
		if got := count[int(k)] / n; math.Abs(got/want-1) > .03 {
			t.Errorf("key %v: a share of %.4f, want %.4f", k, got, want)
		}
	}
}

// Keys in the cache are answered without a worker: here there is none, and no queue.
func TestTargetAnswersFromItsCache(t *testing.T) {
	sit := cached(1000)
	sit.Workers, sit.Queue = 0, 0
	target := newTarget(sit, 1, nil)
	ask := func(drawn int) int {
		w := httptest.NewRecorder()
		target.ServeHTTP(w, httptest.NewRequest(http.MethodGet, fmt.Sprintf("/api/test?key=%d", drawn), nil))
		return w.Code
	}
	begin := time.Now().Add(time.Hour)
	target.start.Store(&begin)
	if got := ask(7); got != 200 {
		t.Errorf("before the flush: %d", got)
	}
	begin = time.Now().Add(-time.Hour)
	target.start.Store(&begin)
	if got := ask(7); got != 503 {
		t.Errorf("after the flush: %d", got)
	}
	target.fill(sit.key(7. / draws))
	if hit, other := ask(7), ask(draws-1); hit != 200 || other != 503 {
		t.Errorf("with one key in the cache: %d, another %d", hit, other)
	}
}

// What a worker has answered is in the cache afterwards.
func TestTargetFillsItsCache(t *testing.T) {
	sit := cached(1000)
	sit.Phases[2].Delay = ms
	stop := make(chan struct{})
	defer close(stop)
	target := newTarget(sit, 1, stop)
	begin := time.Now().Add(-time.Hour)
	target.start.Store(&begin)
	w := httptest.NewRecorder()
	target.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/api/test?key=500000", nil))
	if key := sit.key(.5); w.Code != 200 || !target.cache.has(key, 2*time.Hour) || target.cache.has(key+1, 2*time.Hour) {
		t.Errorf("after an answer %d the cache has %v", w.Code, target.cache.filled)
	}
}
