package admit

import (
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
)

func TestClientsAreExactUnderRaces(t *testing.T) {
	const most = 5
	a := &Clients{Most: most}
	client := netip.MustParseAddr("2001:db8::1")
	var in, highest atomic.Int64
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for range 2000 {
				if a.Enter(client, 1000) != Accepted {
					continue
				}
				n := in.Add(1)
				for h := highest.Load(); n > h && !highest.CompareAndSwap(h, n); h = highest.Load() {
				}
				in.Add(-1)
				a.Leave(client)
			}
		})
	}
	wg.Wait()
	if clients, _ := a.Counted(); highest.Load() > most || clients != 0 {
		t.Errorf("%d at a time, %d clients left; want at most %d and none", highest.Load(), clients, most)
	}
}

// A client among others leaves room for them, in all its addresses; a peer that carries many does
// not have to.
func TestShareOfConnections(t *testing.T) {
	const all = 80
	proxy := netip.MustParseAddr("192.0.2.1")
	a := &Clients{Most: 75, Shares: func(peer netip.Addr) bool { return peer != proxy }}
	enter := func(peer func(i int) netip.Addr, want Refusal) (n int) {
		for got := Accepted; ; n++ {
			if got = a.Enter(peer(n), all); got != Accepted {
				if got != want {
					t.Errorf("connection %d is refused for %d, want %d", n+1, got, want)
				}
				return n
			}
		}
	}
	one := func(i int) netip.Addr {
		return netip.AddrFrom16([16]byte{0: 0x20, 1: 0x01, 14: byte(i >> 8), 15: byte(i)})
	}
	if n := enter(one, ByShare); n != 70 {
		t.Errorf("one client gets %d of %d, want 70", n, all)
	}
	if n := enter(func(int) netip.Addr { return netip.MustParseAddr("192.0.2.2") }, ByShare); n != 5 {
		t.Errorf("a second client gets %d, want 5", n)
	}
	if c, n := a.Greediest(); n != 70 || c.String() != "2001::/64" {
		t.Errorf("%s has the most connections, %d, want the first client with 70", c, n)
	}
	for i := range 70 {
		a.Leave(one(i))
	}
	if n := enter(func(int) netip.Addr { return proxy }, ByMost); n != 75 {
		t.Errorf("a proxy gets %d, want the most of one address, 75", n)
	}
}

// A TLS connection takes three descriptors, so there are fewer places.
func TestConnectionsMaxDefaultReckonsWithTLS(t *testing.T) {
	var p Places
	p.Begin(0)
	free := p.descriptors
	for _, step := range []struct {
		what string
		does func()
		want int64
	}{
		{"one in, one out", func() {}, free / 2},
		{"TLS in", func() { p.ExpectIn() }, free / 4},
		{"TLS in, again", func() { p.ExpectIn() }, free / 4},
		{"TLS on both sides", func() { p.ExpectOut() }, free / 6},
	} {
		step.does()
		if got := p.Most(); got != step.want {
			t.Errorf("%s: %d places of %d descriptors, want %d", step.what, got, free, step.want)
		}
	}
	var set Places
	set.Begin(1000)
	set.ExpectIn()
	if got := set.Most(); got != 1000 {
		t.Errorf("a setting of 1000 became %d", got)
	}
}
