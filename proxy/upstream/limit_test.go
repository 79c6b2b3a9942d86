package upstream_test

import (
	"testing"

	"weir/proxy/upstream"
)

// A limit keeps short exchanges waiting though connections are idle; what it allows
// later is told by Next, and streams do not count.
func TestLimit(t *testing.T) {
	p := upstream.NewPool[int, string](10, 5, 10)
	p.SetLimit(2, false)
	waiters := make([]upstream.Waiter[string], 5)
	take := func(i int) upstream.Grant { _, g := p.Acquire(&waiters[i], false); return g }
	for i := range waiters {
		waiters[i].Value = string(rune('a' + i))
	}
	for i, want := range []upstream.Grant{upstream.WaitAndDial, upstream.WaitAndDial, upstream.Wait, upstream.Wait} {
		if got := take(i); got != want {
			t.Fatalf("waiter %d got %d, want %d", i, got, want)
		}
		if i < 2 {
			p.Dialled(i)
		}
	}
	if !p.Bound() || !p.Full() || p.Waiting() != 2 {
		t.Errorf("bound %t, full %t, %d wait; want true, true, 2", p.Bound(), p.Full(), p.Waiting())
	}

	p.SetLimit(1, false)
	if w := p.Release(0); w != nil {
		t.Errorf("with a limit of 1 and one busy %s is served", w.Value)
	}
	if _, w := p.Next(); w != nil {
		t.Errorf("with a limit of 1 and one busy %s is next", w.Value)
	}
	p.SetLimit(2, true)
	if c, w := p.Next(); w == nil || w.Value != "d" || c != 0 {
		t.Errorf("the last to come is not the first to be served")
	}
	if p.DialMore() {
		t.Errorf("a connection is dialled beyond the limit")
	}

	waiters[3].Value = "stream"
	if !p.Stream(&waiters[3]) {
		t.Fatal("there is no place for a stream")
	}
	if p.Bound() {
		t.Error("a stream takes a place of the short exchanges")
	}
	if !p.DialMore() {
		t.Error("the one who waits gets no connection")
	}
	if w := p.Dialled(2); w == nil || w.Value != "c" {
		t.Error("the one who waits is not served")
	}
}
