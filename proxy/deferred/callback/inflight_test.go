package callback_test

import (
	"fmt"
	"net/netip"
	"testing"

	"weir/internal/net/share"
	"weir/proxy/deferred/callback"
)

func TestLines(t *testing.T) {
	t.Parallel()
	for addr, want := range map[string]string{
		"192.0.2.1": "a.example:443 192.0.2.1", "2001:db8::1": "a.example:443 2001:db8::/64", "": "a.example:443 unknown",
	} {
		a, _ := netip.ParseAddr(addr)
		line := callback.ReceiverKey("a.example:443", share.ClientOf(a))
		if line != want {
			t.Errorf("the line of %q is %q, want %q", addr, line, want)
		}
		if receiver, c := callback.ParseReceiverKey(line); receiver != "a.example:443" || c != share.ClientOf(a) {
			t.Errorf("%q is split into %q and %s", line, receiver, c)
		}
	}
	if receiver, c := callback.ParseReceiverKey("[::1]:443"); receiver != "[::1]:443" || c != (share.Client{}) {
		t.Errorf("a line without a client is split into %q and %s", receiver, c)
	}
}

// A client has half of the places of a receiver at most, a further one always finds one while
// there are any, and receivers have places of their own.
func TestPlaces(t *testing.T) {
	t.Parallel()
	p := callback.NewInFlight(8)
	line := func(receiver string, client int) string { return fmt.Sprintf("%s:443 192.0.2.%d", receiver, client) }
	takes := func(receiver string, client, want int) {
		t.Helper()
		n := 0
		for p.Acquire(line(receiver, client)) {
			n++
		}
		if n != want {
			t.Errorf("client %d takes %d places of %s, want %d", client, n, receiver, want)
		}
	}
	takes("a", 1, 4)
	takes("a", 2, 2)
	takes("b", 1, 4)
	takes("a", 3, 1)
	takes("a", 4, 1)
	takes("a", 5, 0) // all eight are taken
	if got := p.Clients(line("a", 9)); got != 4 {
		t.Errorf("%d clients have places, want 4", got)
	}
	p.Release(line("a", 1))
	takes("a", 1, 0)
	takes("a", 5, 1)
	for range 4 {
		p.Release(line("b", 1))
	}
	if got := p.Clients(line("b", 1)); got != 0 {
		t.Errorf("%d clients have places after all were given back", got)
	}
	takes("b", 1, 4)
}
