package serve

import (
	"sync"
	"testing"
	"time"

	"weir/internal/test/testkit"
	"weir/target/model"
)

// forever is a service time that no test waits for.
const forever = time.Hour

func TestQueueFull(t *testing.T) {
	r := start(t, model.Config{Delay: forever, Workers: 2, Queue: 3, QueueTimeout: forever})
	var inside []*testkit.Conn
	for i := range 5 {
		w := r.dial()
		w.Send(get)
		inside = append(inside, w)
		r.inside(min(i+1, 2), max(i-1, 0))
	}
	for _, w := range r.send(4, get) { // any further one
		w.Status(503)
	}
	inside[4].Close() // whoever goes away from the queue leaves a place
	r.inside(2, 2)
	w := r.dial()
	w.Send(get)
	r.inside(2, 3)

	inside[0].Close() // whoever is being served occupies the worker to the end
	again := r.dial()
	again.Send(get)
	again.Status(503)
	r.inside(2, 3)
}

func TestWaitedTooLong(t *testing.T) {
	r := start(t, model.Config{Delay: forever, Workers: 1, Queue: 9, QueueTimeout: 5 * time.Millisecond})
	r.occupy(0)
	for _, w := range r.send(5, get) {
		w.Status(503)
		w.Send("GET /model HTTP/1.1\r\nHost: x\r\n\r\n") // the connection lives on
		w.Status(200)
	}
	if got := r.samples()["target_queue_wait_seconds_count"]; got != 5 {
		t.Errorf("%v waits counted, want 5", got)
	}
}

// Every request of an overload has one answer, and the metrics count the same.
func TestOverloadIsCounted(t *testing.T) {
	r := start(t, model.Config{Delay: 5 * time.Millisecond, Dist: model.Exponential, Workers: 2, Queue: 4,
		QueueTimeout: 20 * time.Millisecond, ErrorRate: 0.2})
	var mu sync.Mutex
	answers, sum := map[int]int{}, 0
	counts := func(status int) (enough bool) {
		mu.Lock()
		defer mu.Unlock()
		answers[status]++
		sum++
		return sum >= 16*40 && answers[200] > 0 && answers[500] > 0 && answers[503] > 0
	}
	var clients sync.WaitGroup
	for range 16 {
		w := r.dial()
		clients.Go(func() {
			for enough := false; !enough; { // or the connection's deadline passes
				w.Send(get)
				res, _ := w.Answer("GET")
				enough = counts(res.StatusCode)
			}
		})
	}
	clients.Wait()
	if answers[200]+answers[500]+answers[503] != sum {
		t.Errorf("the answers are %v, want 200, 500 and 503 only", answers)
	}
	for status, n := range answers {
		if got := r.counted("/api/test", status); got != n {
			t.Errorf("%d answers %d are counted, %d were given", got, status, n)
		}
	}
	r.inside(0, 0)
}

func TestErrorRate(t *testing.T) {
	r := start(t, model.Config{QueueTimeout: time.Second, ErrorRate: 1})
	for range 10 {
		r.want("GET", "/api/test", "", 500, "Internal Server Error")
	}
	r.want("GET", "/nowhere", "", 404, "Not Found") // only the service fails
}

// A client that disconnects gets no answer, affects no other one, and leaves nothing behind.
func TestClientGoesAway(t *testing.T) {
	r := start(t, model.Config{Delay: 5 * time.Millisecond, Workers: 1, Queue: 100, QueueTimeout: time.Minute})
	for range 20 {
		w := r.dial()
		w.Send(get + get)
		w.Close()
	}
	r.want("GET", "/api/test", "", 200, "OK")
	r.inside(0, 0)
}
