package protect

import (
	"io"
	"math/rand/v2"
	"net/http"
	"sync/atomic"
	"time"
)

// A target has what the target program lacks: service times with more variance, and a slow route.
// It has one queue for all workers.
//
// Safe for concurrent use: delay is atomic, queue is a channel.
type target struct {
	situation *Situation
	delay     atomic.Int64 // mean service time in nanoseconds
	queue     chan visit
}

// A visit is a request in the target.
type visit struct {
	at   time.Time
	slow bool
	done chan struct{}
}

// newTarget starts the workers, which end when stop is closed.
func newTarget(s *Situation, seed uint64, stop <-chan struct{}) *target {
	t := &target{situation: s, queue: make(chan visit, s.Queue)}
	t.delay.Store(int64(s.Phases[0].Delay))
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
			free = free.Add(t.situation.draw(chance, time.Duration(t.delay.Load()), v.slow))
			time.Sleep(time.Until(free))
			close(v.done)
		}
	}
}

// ServeHTTP waits for a worker and the service; it answers 503 if the queue is full.
func (t *target) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	v := visit{time.Now(), r.URL.Path == slowPath, make(chan struct{})}
	select {
	case t.queue <- v:
		<-v.done
		_, _ = io.WriteString(w, "OK")
	default:
		http.Error(w, "queue full", http.StatusServiceUnavailable)
	}
}
