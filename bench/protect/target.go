package protect

import (
	"io"
	"math/rand/v2"
	"net/http"
	"sync/atomic"
	"time"
)

// A target does what the target program cannot: service times that vary more,
// and a slow route. It has one queue for all workers.
//
// Safe for concurrent use: the delay is atomic, the line a channel.
type target struct {
	situation *Situation
	delay     atomic.Int64 // mean service time in nanoseconds
	line      chan visit
}

// A visit is a request in the target.
type visit struct {
	at   time.Time
	slow bool
	done chan struct{}
}

// newTarget starts the workers, which end when stop is closed.
func newTarget(s *Situation, seed uint64, stop <-chan struct{}) *target {
	t := &target{situation: s, line: make(chan visit, s.Queue)}
	t.delay.Store(int64(s.Phases[0].Delay))
	for w := range s.Workers {
		go t.work(rand.New(rand.NewPCG(seed, uint64(w))), stop)
	}
	return t
}

// work serves one after the other. A service begins when the one before should
// have ended, however late the timer was: so the capacity is exact.
func (t *target) work(chance *rand.Rand, stop <-chan struct{}) {
	var free time.Time
	for {
		select {
		case <-stop:
			return
		case v := <-t.line:
			if v.at.After(free) {
				free = v.at
			}
			free = free.Add(t.situation.draw(chance, time.Duration(t.delay.Load()), v.slow))
			time.Sleep(time.Until(free))
			close(v.done)
		}
	}
}

// ServeHTTP waits for a worker and its service; 503 when the queue is full.
func (t *target) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	v := visit{time.Now(), r.URL.Path == slowPath, make(chan struct{})}
	select {
	case t.line <- v:
		<-v.done
		_, _ = io.WriteString(w, "OK")
	default:
		http.Error(w, "queue full", http.StatusServiceUnavailable)
	}
}
