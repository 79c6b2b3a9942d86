package service

import (
	"fmt"
	"net/netip"
	"testing"

	"weir/internal/net/share"
)

// One client holds half of a queue at most, whichever addresses of its network it uses, and a
// further one always finds room. What is being worked on counts until it has left.
func TestRoomShares(t *testing.T) {
	r := NewBoundedQueue[share.Client](10)
	enter := func(client string, want bool) {
		t.Helper()
		c := share.ClientOf(netip.MustParseAddr(client))
		if r.Enter(c, func() share.Client { return c }) != want {
			t.Errorf("%s may enter: %t, want %t", client, !want, want)
		}
	}
	for i := range 5 {
		enter(fmt.Sprintf("2001:db8::%d", i+1), true)
	}
	enter("2001:db8::ffff", false)
	a, _ := r.Next()
	enter("2001:db8::1", false) // it is still worked on
	enter("192.0.2.1", true)
	enter("192.0.2.1", true)
	enter("192.0.2.1", false)
	enter("192.0.2.2", true)
	r.Leave(a)
	enter("192.0.2.3", true)
	if got := r.Refused(); got != 3 {
		t.Errorf("%d were refused, want 3", got)
	}
	for i := range 2 {
		enter(fmt.Sprintf("198.51.100.%d", i), true)
	}
	enter("198.51.100.9", false) // there are ten
	r.Close()
	enter("203.0.113.1", false)
	n := 0
	for a, ok := r.Next(); ok; a, ok = r.Next() {
		r.Leave(a)
		n++
	}
	if n != 10 || r.line.Held() != 0 {
		t.Errorf("%d left after the queue was closed and %d are held, want 10 and 0", n, r.line.Held())
	}
}

// Without an address of its own a request counts as that of the connection.
func TestLinkClient(t *testing.T) {
	l := Addrs{Remote: netip.MustParseAddrPort("192.0.2.1:80")}
	if got := l.client().String(); got != "192.0.2.1" {
		t.Errorf("it is %s", got)
	}
	l.Client = netip.MustParseAddr("2001:db8::1")
	if got := l.client().String(); got != "2001:db8::/64" {
		t.Errorf("behind a trusted proxy it is %s", got)
	}
}
