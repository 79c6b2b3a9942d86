package deferred

import (
	"errors"
	"math"
	"net/netip"
	"slices"
	"testing"
)

// A buffer gives out what was added, in order and in bounded groups.
func TestTake(t *testing.T) {
	b := NewWriteBuffer[int]()
	put := func(op, size int, scope byte) Outcome {
		s := PutResult{Outcome: Accepted} // by whoever takes it
		p := &PutRequest{Entry: Entry{Body: make([]byte, size), Scope: SHA256{scope}},
			Done: func(told PutResult) { s = told }}
		b.Put(op, p)
		return s.Outcome
	}
	for i, size := range []int{1000, 1000, 5000, 10} {
		if got := put(i, size, byte(i)); got != Accepted {
			t.Errorf("put %d: %s", i, got)
		}
	}
	if got := put(9, 1, 1); got != Storing {
		t.Errorf("the same scope: %s", got)
	}
	b.Return(7, 0)
	for _, want := range [][]int{{0, 1}, {2}, {3, 7}, nil} {
		if got := b.Dequeue(3, 4000); !slices.Equal(got, want) {
			t.Errorf("took %v, want %v", got, want)
		}
	}
	b.Stored(&PutRequest{Entry: Entry{Scope: SHA256{1}}, Done: func(PutResult) {}}, PutResult{})
	if got := put(9, 1, 1); got != Accepted {
		t.Errorf("the same scope when it is stored: %s", got)
	}
	select {
	case <-b.Wake():
	default:
		t.Error("nobody is woken")
	}
}

// A buffer takes puts up to its bounds, and anything else always, until it is closed.
func TestBounds(t *testing.T) {
	for name, c := range map[string]struct{ size, fits int }{
		"entries": {1, pendingMax}, "bytes": {1 << 20, 63},
	} {
		b := NewWriteBuffer[int]()
		var told PutResult
		p := &PutRequest{Entry: Entry{Body: make([]byte, c.size)}, Done: func(s PutResult) { told = s }}
		for i := range c.fits {
			if !b.Put(i, p) {
				t.Fatalf("%s: put %d of %d: %v", name, i, c.fits, told.Err)
			}
		}
		if b.Put(0, p) || told.Outcome != Unstored || told.Err == nil {
			t.Errorf("%s: one beyond is added, %v", name, told.Err)
		}
		if err := b.Add(1, 0); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		away := errors.New("away")
		if b.Fail(away) != nil || b.Err() != away || b.Put(0, p) || told.Err != away {
			t.Errorf("%s: broken: %v, told %v", name, b.Err(), told.Err)
		}
		if b.Recover(); b.Err() != nil || b.Closed() {
			t.Errorf("%s: mended: %v", name, b.Err())
		}
		if !b.Close() || b.Close() || b.Add(1, 0) != ErrClosed || b.Put(0, p) || told.Err != ErrClosed {
			t.Errorf("%s: closed, told %v", name, told.Err)
		}
	}
}

// A client has at most half of the list, in puts and in bytes, and another one still finds room.
func TestShareOfClient(t *testing.T) {
	for name, c := range map[string]struct{ size, fits int }{
		"entries": {1, pendingMax / 2}, "bytes": {1 << 20, 31},
	} {
		b := NewWriteBuffer[int]()
		var told PutResult
		of := func(addr string) *PutRequest {
			return &PutRequest{Entry: Entry{Remote: netip.MustParseAddrPort(addr), Body: make([]byte, c.size)},
				Done: func(s PutResult) { told = s }}
		}
		for i := range c.fits {
			if !b.Put(i, of("[2001:db8::1]:1")) {
				t.Fatalf("%s: put %d of %d: %s, %v", name, i, c.fits, told.Bound, told.Err)
			}
		}
		if b.Put(0, of("[2001:db8::2]:1")) || told.Outcome != Full || told.Bound != BoundShare {
			t.Errorf("%s: one beyond is added, or refused for %s", name, told.Bound)
		}
		if !b.Put(0, of("10.0.0.1:1")) {
			t.Errorf("%s: another client finds no room: %s", name, told.Bound)
		}
		b.Dequeue(2, math.MaxInt)
		if !b.Put(0, of("[2001:db8::2]:1")) {
			t.Errorf("%s: there is no room when two are taken: %s", name, told.Bound)
		}
		if b.All(); b.puts.Total()+b.sizes.Total() != 0 {
			t.Errorf("%s: %d puts are counted of none", name, b.puts.Total())
		}
	}
}
