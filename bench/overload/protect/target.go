package protect

import (
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// draws is how many numbers the requests to a target with a cache draw their keys from, and
// keyQuery the query with one of them.
const (
	draws    = 1_000_000
	keyQuery = "?key={{random 0 999999}}"
)

// A target has what the target program lacks: service times with more variance, a slow route, dips,
// a cache, and workers that serve abandoned requests. It has one queue for all workers.
//
// Safe for concurrent use: start is atomic, queue is a channel, mu guards the cache.
type target struct {
	scenario *Scenario
	start    atomic.Pointer[time.Time] // when the scenario begins
	queue    chan visit
	mu       sync.Mutex
	cache    *cache // nil for none
}

// A visit is a request in the target.
type visit struct {
	at   time.Time
	slow bool
	done chan struct{}
}

// newTarget starts the workers, which end when stop is closed. The scenario begins at once, unless
// start is changed.
func newTarget(s *Scenario, seed uint64, stop <-chan struct{}) *target {
	t := &target{scenario: s, queue: make(chan visit, s.Queue), cache: s.newCache()}
	now := time.Now()
	t.start.Store(&now)
	for w := range s.Workers {
		go t.work(rand.New(rand.NewPCG(seed, uint64(w))), stop)
	}
	return t
}

// work serves one request after another. A service starts when the previous one should have ended,
// even if the timer was late, so the capacity is exact.
func (t *target) work(chance *rand.Rand, stop <-chan struct{}) {
	var free time.Time
	for {
		select {
		case <-stop:
			return
		case v := <-t.queue:
			if v.at.After(free) {
				free = v.at
			}
			start := *t.start.Load()
			free = start.Add(t.scenario.end(chance, free.Sub(start), v.slow))
			time.Sleep(time.Until(free))
			close(v.done)
		}
	}
}

// ServeHTTP waits for a worker and the service, unless the answer is in the cache; it answers 503 if
// the queue is full.
func (t *target) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	v := visit{time.Now(), r.URL.Path == slowPath, make(chan struct{})}
	key, hit := t.find(v.at, r)
	if hit {
		time.Sleep(hitTime)
		_, _ = io.WriteString(w, "OK")
		return
	}
	select {
	case t.queue <- v:
		<-v.done
		t.fill(key)
		_, _ = io.WriteString(w, "OK")
	default:
		http.Error(w, "queue full", http.StatusServiceUnavailable)
	}
}

// find returns the key of a request, and whether the cache has its answer.
func (t *target) find(now time.Time, r *http.Request) (key int, hit bool) {
	if t.cache == nil {
		return 0, false
	}
	drawn, _ := strconv.Atoi(r.URL.Query().Get("key"))
	key = t.scenario.key(float64(drawn) / draws)
	t.mu.Lock()
	defer t.mu.Unlock()
	return key, t.cache.has(key, now.Sub(*t.start.Load()))
}

// fill adds a key to the cache.
func (t *target) fill(key int) {
	if t.cache == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cache.fill(key, time.Since(*t.start.Load()))
}
