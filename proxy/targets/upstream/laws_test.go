package upstream

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"

	"weir/internal/net/share"
)

// TestHistories drives pools of small sizes with random histories. The laws
// are in world: counts agree with the books and never go below zero, there are
// never more connections than allowed but for fresh ones, none of which stays
// beyond the bound, waiters come first in, first out and each has exactly one
// fate, idle connections go last in, first out, nobody waits without a dial
// while there is room, and a retired pool serves who still comes and ends empty.
func TestHistories(t *testing.T) {
	for _, most := range []int{1, 2, 3, 4, 9, 17, 40} {
		for _, waitMax := range []int{0, 1, 2, 3, 4, 5, 16} {
			for seed := range uint64(12) {
				name := fmt.Sprintf("most=%d waitMax=%d seed=%d", most, waitMax, seed)
				t.Run(name, func(t *testing.T) {
					w := newWorld(t, rand.New(rand.NewPCG(seed, 7)), most, waitMax)
					w.live(300, seed%2 == 1)
					if seed%3 == 1 {
						w.retire()
						w.check()
						w.live(40, seed%2 == 1)
					}
					w.windDown()
				})
			}
		}
	}
}

// live takes random steps, with or without asks for fresh connections.
func (w *world) live(steps int, fresh bool) {
	for range steps {
		w.step(fresh)
		w.check()
	}
}

func (w *world) step(fresh bool) {
	switch n := w.r.IntN(18); {
	case n < 5:
		w.acquire(fresh && w.r.IntN(3) == 0)
	case n < 8 && len(w.busy) > 0:
		w.release(w.r.IntN(len(w.busy)))
	case n < 10 && w.dialing > 0:
		w.dialled()
	case n < 11 && w.dialing > 0:
		w.dialFailed()
	case n < 12 && len(w.busy) > 0:
		w.lost(&w.busy, w.r.IntN(len(w.busy)))
	case n < 13 && len(w.idle) > 0:
		w.lost(&w.idle, w.r.IntN(len(w.idle)))
	case n < 14 && len(w.queue) > 0:
		w.cancel(&w.queue, w.r.IntN(len(w.queue)))
	case n < 14 && len(w.behind) > 0:
		w.cancel(&w.behind, w.r.IntN(len(w.behind)))
	case n < 15 && len(w.fresh) > 0:
		w.cancel(&w.fresh, w.r.IntN(len(w.fresh)))
	case n >= 16 && len(w.leaving) > 0:
		w.lost(&w.leaving, w.r.IntN(len(w.leaving)))
	}
}

// windDown lets everything in progress end. Then no request may wait any more, whatever happened
// before, and the remaining connections are within the bound.
func (w *world) windDown() {
	for len(w.busy)+len(w.leaving)+w.dialing > 0 {
		switch {
		case len(w.leaving) > 0 && w.r.IntN(2) == 0:
			w.lost(&w.leaving, 0)
		case w.dialing > 0 && w.r.IntN(3) == 0:
			w.dialFailed()
		case w.dialing > 0:
			w.dialled()
		case len(w.busy) > 0:
			w.release(w.r.IntN(len(w.busy)))
		}
		w.check()
	}
	for i, f := range w.fates {
		w.want(f != waits, "waiter %d still waits at the end", i)
	}
	w.want(w.pool.InFlight() == 0, "in flight at the end: %d", w.pool.InFlight())
	w.want(w.pool.Size() <= w.most, "%d connections stay, at most %d are allowed", w.pool.Size(), w.most)
	w.want(!w.retired || w.empty(), "a retired pool is not empty at the end: %d open", w.pool.Size())
}

// A fresh connection takes the place of one that has just failed, so it may exceed the bound by
// one until the failed one is closed; no other request may exceed it because of that.
func TestFreshGoesBeyondTheBound(t *testing.T) {
	w := newWorld(t, nil, 1, 4)
	w.acquire(false)
	w.dialled()
	w.acquire(true)  // the one connection has failed
	w.acquire(false) // and somebody else comes
	w.want(w.pool.Size() == 1 && w.pool.Connecting() == 1, "open %d, connecting %d", w.pool.Size(), w.pool.Connecting())
	w.lost(&w.busy, 0)
	w.dialled()
	w.want(w.fates[1] == served && w.fates[2] == waits, "the fresh one is %s, the other %s", w.fates[1], w.fates[2])
	w.release(0)
	w.want(w.fates[2] == served, "the other one %s", w.fates[2])
}

// A queue that is never empty must not keep a connection beyond the bound: the connection is
// closed although a request waits, which gets the next one.
func TestBeyondTheBoundLeaves(t *testing.T) {
	w := newWorld(t, nil, 1, 4)
	w.acquire(false)
	w.dialled()
	w.acquire(true)
	w.dialled()
	w.acquire(false)
	w.release(0)
	w.check()
	w.want(w.pool.Leaving(1) && w.fates[2] == waits, "connection 1 is leaving: %t, the waiter %s", w.pool.Leaving(1),
		w.fates[2])
	w.release(0)
	w.want(w.fates[2] == served, "after the next release the waiter %s", w.fates[2])
	w.lost(&w.leaving, 0)
	w.release(0)
	w.check()
	w.want(w.pool.Idle() == 1 && w.pool.Size() == 1, "idle %d of %d", w.pool.Idle(), w.pool.Size())
}

// Requests that wait when a pool is retired must not be lost: one gets the connection that is
// busy now, another one a new connection.
func TestRetiredServesWhoWaits(t *testing.T) {
	w := newWorld(t, nil, 1, 4)
	w.acquire(false)
	w.dialled()
	w.acquire(false)
	w.acquire(false)
	w.retire()
	w.release(0)
	w.want(w.fates[1] == served, "who waited %s", w.fates[1])
	w.lost(&w.busy, 0)
	w.dialled()
	w.want(w.fates[2] == served, "who waited behind %s", w.fates[2])
	w.release(0)
	w.check()
	w.want(w.pool.Leaving(2) && !w.empty(), "the last connection is leaving: %t", w.pool.Leaving(2))
	w.lost(&w.leaving, 0)
	w.want(w.empty(), "the pool is not empty: %d open", w.pool.Size())
}

// So many places for streams are there, and each is given back once.
func TestStreams(t *testing.T) {
	p := NewPool[int, int](4, 2, 4)
	var w [3]Waiter[int]
	for i, want := range []bool{true, true, false} {
		if got := p.Stream(&w[i]); got != want {
			t.Errorf("stream %d has a place: %t", i, got)
		}
	}
	if !p.Stream(&w[0]) || p.Streams() != 2 {
		t.Errorf("who has a place asks again: %d are taken", p.Streams())
	}
	for range 2 {
		p.End(&w[0])
		p.End(&w[2])
	}
	if p.Streams() != 1 || !p.Stream(&w[2]) || p.Stream(&w[0]) {
		t.Errorf("one place was given back: %d are taken", p.Streams())
	}
}

// One client leaves places for streams to others, in whose name they are given back.
func TestStreamsOfClients(t *testing.T) {
	p := NewPool[int, int](20, 16, 4)
	of := func(i byte) share.Client { return share.ClientOf(netip.AddrFrom4([4]byte{10, 0, 0, i})) }
	var all []*Waiter[int]
	for i, want := range []int{14, 1, 1, 0} {
		got := 0
		for range 20 {
			w := new(Waiter[int])
			w.SetClient(of(byte(i)), 0)
			if !p.Stream(w) {
				break
			}
			got++
			all = append(all, w)
		}
		if got != want {
			t.Errorf("client %d gets %d of 16 places beside those before, want %d", i, got, want)
		}
	}
	for _, w := range all {
		w.SetClient(of(9), 0) // of the next request
		p.End(w)
	}
	if p.Streams() != 0 {
		t.Errorf("%d places are taken after all were given back", p.Streams())
	}
}

// One client leaves an eighth of the connections, and of the places to wait, to others, however
// many requests it sends. Another one gets a connection at once, and several as long as it has
// fewer than are left.
func TestOneClientLeavesConnections(t *testing.T) {
	const most, waitMax = 16, 32
	p, conns := NewPool[int, int](most, most, waitMax), 0
	acquire := func(client uint64) (w *Waiter[int], g AcquireResult) {
		w = new(Waiter[int])
		w.SetClient(share.Client{}, client)
		if _, g = p.Acquire(w, false); g == WaitAndDial {
			conns++
			if next := p.Dialled(conns); next != nil {
				g = Ready
			}
		}
		return w, g
	}
	var first []*Waiter[int]
	for range 10 * waitMax {
		if w, g := acquire(1); g != Full {
			first = append(first, w)
		}
	}
	if p.Busy() != 14 || p.behind.count != 28 || len(first) != 14+28 {
		t.Errorf("one client has %d connections and waits for %d, %d were taken; want 14, 28 and both", p.Busy(),
			p.behind.count, len(first))
	}
	second, g := acquire(2)
	if g != Ready {
		t.Errorf("the first of another client: grant %d", g)
	}
	if _, g := acquire(2); g != Full {
		t.Errorf("its second, with one connection left and all places behind taken: grant %d, want none", g)
	}
	p.End(second)
	if next := p.Release(15, second); next != nil || p.Idle() != 1 {
		t.Errorf("the connection of the other client went to %+v", next)
	}
	p.End(first[0])
	if next := p.Release(1, first[0]); next != first[14] {
		t.Errorf("a connection of the first client went to %+v, want its next", next)
	}
}

// A client with few connections keeps one that is idle while another one with many waits for dials, but not when these
// fail: the one that waits gets it.
func TestFewKeepTheirs(t *testing.T) {
	p := NewPool[int, int](40, 40, 40)
	acquire := func(client uint64, want AcquireResult) *Waiter[int] {
		t.Helper()
		w := new(Waiter[int])
		w.SetClient(share.Client{}, client)
		if _, g := p.Acquire(w, false); g != want {
			t.Fatalf("client %d: grant %d, want %d", client, g, want)
		}
		return w
	}
	const many = 2 * fewTimes
	for c := range many {
		acquire(1, WaitAndDial)
		p.Dialled(c)
	}
	few := acquire(2, WaitAndDial)
	p.Dialled(many)
	waits := acquire(1, WaitAndDial)
	release := func() {
		t.Helper()
		p.End(few)
		if next := p.Release(many, few); next != nil || p.Idle() != 1 {
			t.Fatalf("the connection of the client with few went to %+v", next)
		}
	}
	release()
	last := acquire(1, WaitAndDial)
	few = acquire(2, Ready)
	release()
	if failed, again := p.DialFailed(); failed != nil || again {
		t.Errorf("waiter %+v has failed, another dial: %t", failed, again)
	}
	if c, w := p.Spare(); c != many || w != waits {
		t.Errorf("waiter %+v gets connection %d", w, c)
	}
	if failed, _ := p.DialFailed(); failed != last || p.Waiting()+p.Connecting() > 0 {
		t.Errorf("waiter %+v has failed, %d wait for %d dials", failed, p.Waiting(), p.Connecting())
	}
}

// A connection that was handed over counts for its client until the other waiter gives it back.
func TestHandedConnectionCounts(t *testing.T) {
	p := NewPool[int, int](8, 8, 8)
	var from, to Waiter[int]
	from.SetClient(share.Client{}, 5)
	p.Acquire(&from, false)
	p.Dialled(1)
	from.Hand(&to)
	for _, test := range []struct {
		ends *Waiter[int]
		want int32
	}{{&from, 1}, {&to, 0}, {&to, 0}} {
		if p.End(test.ends); p.holds[5] != test.want {
			t.Errorf("its client holds %d connections, want %d", p.holds[5], test.want)
		}
	}
}

// A waiter that is already in a queue must not be put into another one.
func TestWaiterStandsInOneLine(t *testing.T) {
	p := NewPool[int, int](1, 1, 4)
	var w Waiter[int]
	p.Acquire(&w, false)
	defer func() {
		if recover() == nil {
			t.Error("a waiter could stand in line twice")
		}
	}()
	p.Acquire(&w, false)
}

// Acquire and release are on the path of every request.
func TestNoAllocation(t *testing.T) {
	p := NewPool[int, int](1, 1, 4)
	var first, second Waiter[int]
	p.Acquire(&first, false)
	p.Dialled(1)
	if n := testing.AllocsPerRun(100, func() {
		p.Acquire(&second, false)
		p.Release(1, &first) // to second
		p.Release(1, &second)
		p.Leaving(1)
		p.Acquire(&first, false)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkAcquireRelease(b *testing.B) {
	p := NewPool[int, int](4, 4, 4)
	var w Waiter[int]
	p.Acquire(&w, false)
	p.Dialled(1)
	p.Release(1, &w)
	b.ReportAllocs()
	for b.Loop() {
		c, _ := p.Acquire(&w, false)
		p.Release(c, &w)
	}
}

// A place that is only reserved is one of those for streams, but its exchange is a short one until
// Stream, and again after Reserve.
func TestReservedPlaces(t *testing.T) {
	p := NewPool[int, int](4, 1, 1)
	var w, other, next Waiter[int]
	for i, step := range []struct {
		do      func(w *Waiter[int]) bool
		streams int
	}{{p.Reserve, 0}, {p.Reserve, 0}, {p.Stream, 1}, {p.Stream, 1}, {p.Reserve, 0}} {
		if !step.do(&w) || p.Streams() != step.streams || w.Streams() != (step.streams > 0) {
			t.Errorf("step %d: %d streams, the waiter says %t", i, p.Streams(), w.Streams())
		}
		if p.Reserve(&other) || p.Stream(&other) {
			t.Errorf("step %d: another one has the same place", i)
		}
	}
	w.Hand(&next)
	p.End(&w)
	if p.Stream(&other) {
		t.Error("the place that was handed over is free")
	}
	p.End(&next)
	if !p.Stream(&other) || p.Streams() != 1 {
		t.Errorf("the place is not free in the end, %d streams", p.Streams())
	}
}
