package upstream_test

import (
	"testing"

	"weir/proxy/upstream"
)

// Every request takes a place, while it waits for a connection and while it has one.
// Streams take no more than a quarter of the places.
func TestLimit(t *testing.T) {
	p := upstream.NewPool[int, string](100, 100, 100)
	if p.Free() <= 0 {
		t.Error("there is no room though nothing is bounded")
	}
	p.SetLimit(8)
	waiters := make([]upstream.Waiter[string], 20)
	for i, taken := range []int{1, 2, 2, 2, 2} { // streams
		p.Stream(&waiters[i])
		p.Acquire(&waiters[i], false)
		if i%2 == 0 {
			p.Dialled(i)
		}
		if p.Taken() != taken {
			t.Errorf("%d streams take %d places, want %d", i+1, p.Taken(), taken)
		}
	}
	for i := range 6 {
		if p.Free() <= 0 {
			t.Errorf("there is no room for request %d beside the streams", i+1)
		}
		p.Acquire(&waiters[5+i], false)
	}
	if p.Free() > 0 || p.Taken() != 8 {
		t.Errorf("%d of 8 places are taken, and %d are free", p.Taken(), p.Free())
	}
	for i := range 5 {
		p.EndStream(&waiters[i]) // they are like the others now
	}
	if p.Taken() != 11 {
		t.Errorf("11 requests take %d places", p.Taken())
	}
	for conn := range 8 {
		p.Dialled(10 + conn)
		p.Lost(10 + conn)
	}
	if p.SetLimit(0); p.Free() > 0 || p.Taken() != 3 {
		t.Errorf("with the least limit and %d places taken there is room", p.Taken())
	}
}
