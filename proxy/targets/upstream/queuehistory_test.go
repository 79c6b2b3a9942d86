package upstream_test

import (
	"testing"
	"time"

	"weir/proxy/targets/upstream"
)

// A passer plays a queue on which places come and go.
type passer struct {
	*upstream.Queue[int]
	now  time.Time
	held []*upstream.Waiter[int]
	next int
}

const long = 50 * time.Millisecond

func newPasser() *passer { return newPasserOf(upstream.NewQueueSet(1), 0) }

// newPasserOf returns a passer whose queue is one of several.
func newPasserOf(queues *upstream.QueueSet, loop int) *passer {
	p := &passer{Queue: upstream.NewQueue[int](1000, plenty), now: time.Unix(1, 0)}
	p.JoinSet(queues, loop)
	for range 10 {
		w := p.waiter()
		p.Take(p.now, w, usual)
		p.held = append(p.held, w)
	}
	return p
}

func (p *passer) waiter() *upstream.Waiter[int] {
	w := waiterFor(1, 0)
	p.next++
	w.Value = p.next
	return w
}

// waits lets so many requests come and wait for long, while answers come or do not.
func (p *passer) waits(n int, answers bool) {
	var come []*upstream.Waiter[int]
	for range n {
		w := p.waiter()
		p.Join(p.now, w)
		come = append(come, w)
	}
	for end := p.now.Add(long); p.now.Before(end); p.now = p.now.Add(usual) {
		if answers {
			p.pass()
		}
	}
	for _, w := range come {
		p.Late(p.now, w, long)
	}
}

// serve gives a place that is given back to the next, and returns which it is.
func (p *passer) serve() int {
	p.Give(p.now, p.held[0])
	w := p.Next(p.now)
	p.Take(p.now, w, usual)
	p.held = append(p.held[1:], w)
	return w.Value
}

// inOrder serves two of three that wait for long while answers come, and reports whether the first
// of them came first.
func (p *passer) inOrder() bool {
	p.serveUsually()
	first := p.next + 1
	p.waits(3, true)
	is := p.serve()
	for p.Len() > 0 {
		p.now = p.now.Add(usual)
		p.serve()
	}
	return is == first
}

// serveUsually lets answers come as usual for a while, without a queue.
func (p *passer) serveUsually() {
	for range 100 {
		p.now = p.now.Add(usual)
		p.pass()
	}
}

// pass gives a place that is given back to one that has not waited.
func (p *passer) pass() {
	p.Give(p.now, p.held[0])
	p.held[0] = new(upstream.Waiter[int])
	p.Take(p.now, p.held[0], usual)
	p.held = append(p.held[1:], p.held[0])
}

// A queue in which requests wait for long is served from its end, as under overload, unless two
// such queues have passed just before, each with a quiet time after it that is twice as long.
func TestPassingQueuesAreServedInOrder(t *testing.T) {
	p := newPasser()
	for i, want := range []bool{false, false, true, true} {
		if got := p.inOrder(); got != want {
			t.Errorf("queue %d is served in order: %t, want %t", i, got, want)
		}
	}
	p.now = p.now.Add(time.Hour)
	if p.inOrder() {
		t.Error("what was known an hour ago still counts")
	}
}

// What waits after a standstill is served in order, unless it is overload all the same.
func TestStandstillsAreServedInOrder(t *testing.T) {
	p := newPasser()
	p.serveUsually()
	p.waits(3, false)
	p.now = p.now.Add(8 * long)
	for want := p.next - 2; want <= p.next; want++ {
		if got := p.serve(); got != want {
			t.Errorf("after a standstill %d is served, want %d", got, want)
		}
	}
	p = newPasser()
	p.serveUsually()
	p.waits(3, false)
	p.now = p.now.Add(40 * long) // longer than clients wait
	if got := p.serve(); got != p.next {
		t.Errorf("after a long standstill %d is served, want the newest, %d", got, p.next)
	}
}

// A request leaves the queue when it has waited for as long as one may.
func TestWaitMax(t *testing.T) {
	p := newPasser()
	p.Waits(10*long, upstream.TolerableWait)
	w := p.waiter()
	p.Join(p.now, w)
	joined := p.now
	if until, ok := p.Late(joined.Add(long), w, long); !ok || until != joined.Add(10*long) {
		t.Errorf("may wait until %v later (%t), want %v", until.Sub(joined), ok, 10*long)
	}
	if _, ok := p.Late(joined.Add(10*long), w, long); ok || w.Waiting() {
		t.Error("waits on")
	}
}

// Where one loop sheds requests, a standstill on another changes nothing.
func TestStandstillUnderOverload(t *testing.T) {
	queues := upstream.NewQueueSet(2)
	a, b := newPasserOf(queues, 0), newPasserOf(queues, 1)
	a.waits(2, false)
	shed, keep := waiterFor(1, 0), waiterFor(1, 0)
	a.Join(a.now, shed)
	a.now = a.now.Add(40 * long)
	if _, ok := a.Late(a.now, shed, long); ok {
		t.Fatal("there is no overload")
	}
	b.now = a.now.Add(usual)
	b.pass()
	b.now = b.now.Add(2 * long)
	b.pass()
	a.Join(b.now, keep)
	if until, ok := a.Late(b.now.Add(long), keep, long); ok {
		t.Errorf("may wait until %v later", until.Sub(b.now))
	}
}

// The first of those that wait because others hold the places is none whose client has its share.
func TestFirstIsNotGreedy(t *testing.T) {
	l, now := unfair(0)
	greedy, other := waiterFor(1, 1), waiterFor(5, 1)
	l.Join(now, greedy)
	if got := l.First(now); got != nil {
		t.Errorf("the first is %+v, want none: the only one is greedy", got)
	}
	l.Join(now, other)
	if got := l.First(now); got != other {
		t.Errorf("the first is %+v, want %+v, of another client", got, other)
	}
}
