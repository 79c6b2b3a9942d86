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
				if a.Enter(client, 1000, 1) != Accepted {
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
	if clients, _, _ := a.Counts(); highest.Load() > most || clients != 0 {
		t.Errorf("%d at a time, %d clients left; want at most %d and none", highest.Load(), clients, most)
	}
}

// A client among others leaves room for them, in all its addresses; a peer that carries many does
// not have to.
func TestShareOfConnections(t *testing.T) {
	const all = 80
	proxy := netip.MustParseAddr("192.0.2.1")
	a := &Clients{Most: 75, Shares: func(peer netip.Addr) bool { return peer != proxy }}
	enter := func(peer func(i int) netip.Addr, want RefusalReason) (n int) {
		for got := Accepted; ; n++ {
			if got = a.Enter(peer(n), all, 1); got != Accepted {
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
	if n := enter(one, ClientShare); n != 70 {
		t.Errorf("one client gets %d of %d, want 70", n, all)
	}
	if n := enter(func(int) netip.Addr { return netip.MustParseAddr("192.0.2.2") }, ClientShare); n != 5 {
		t.Errorf("a second client gets %d, want 5", n)
	}
	if c, n := a.Greediest(); n != 70 || c.String() != "2001::/64" {
		t.Errorf("%s has the most connections, %d, want the first client with 70", c, n)
	}
	for i := range 70 {
		a.Leave(one(i))
	}
	if n := enter(func(int) netip.Addr { return proxy }, ClientBound); n != 75 {
		t.Errorf("a proxy gets %d, want the most of one address, 75", n)
	}
}

// A boundClients plays a listener with a bound.
type boundClients struct {
	t *testing.T
	Clients
	all, open int64
	ended     []int // names of the silent connections that were replaced
}

func (c *boundClients) enter(peer netip.Addr) RefusalReason {
	full := c.open >= c.all
	r := c.Enter(peer, c.all, c.open+1)
	if r != Accepted {
		return r
	}
	c.open++
	if full && !c.EndSilent(peer) {
		c.t.Error("accepted at the bound, and nothing is closed for it")
	}
	return r
}

func (c *boundClients) wait(peer netip.Addr, name int) {
	c.Await(peer, func() {
		c.ended = append(c.ended, name)
		c.open--
		c.Leave(peer)
	})
}

// At the bound a client that has several connections in use finds room beside others that do not use
// theirs. The oldest of these are closed, never one that is in use, and nobody replaces many of others.
func TestSilentConnectionsAreReplaced(t *testing.T) {
	const all = 64
	c := &boundClients{t: t, Clients: Clients{Shares: func(netip.Addr) bool { return true }}, all: all}
	other := func(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, 0, byte(i)}) }
	good, greedy := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	for range 4 {
		c.enter(good)
	}
	for i := range all {
		if c.enter(other(i)) == Accepted {
			c.wait(other(i), i)
		}
	}
	if len(c.ended) != 4 || c.open != all {
		t.Fatalf("%v are closed and %d open, want the first four closed and %d open", c.ended, c.open, all)
	}
	for i := range 12 {
		if r := c.enter(good); r != Accepted {
			t.Errorf("connection %d of the client that uses its own is refused for %d", 5+i, r)
		}
	}
	for i, name := range c.ended {
		if name != i {
			t.Errorf("%v are closed, want the oldest first", c.ended)
		}
	}
	before, others := len(c.ended), 0
	for i := range 1000 {
		if r := c.enter(greedy); r != Accepted {
			t.Fatalf("connection %d of the client that uses none is refused for %d", i, r)
		}
		c.wait(greedy, 100+i)
	}
	for _, name := range c.ended[before:] {
		if name < 100 {
			others++
		}
	}
	if others < 1 || others > all/8 {
		t.Errorf("a client that uses none of its connections replaces %d of others, want 1 to %d", others, all/8)
	}
	for c.EndSilent(greedy) {
	}
	for c.open < all {
		if got := c.enter(other(int(c.open))); got != Accepted {
			t.Fatalf("with %d open of %d: got %v, want %v", c.open, all, got, Accepted)
		}
	}
	if r := c.enter(other(200)); r != TotalBound {
		t.Errorf("when all are in use a further one gets %d, want %d", r, TotalBound)
	}
}

// What was received on a connection before it is closed for another saves it, and no one is counted
// twice.
func TestHeardIsNotReplaced(t *testing.T) {
	var a Clients
	peer := netip.MustParseAddr("192.0.2.1")
	s := a.Await(peer, func() { t.Error("a connection in use is closed") })
	a.MarkUsed(s)
	if a.EndSilent(peer) {
		t.Error("one is closed, and none is silent")
	}
	s = a.Await(peer, func() {})
	if !a.EndSilent(peer) {
		t.Error("none is closed")
	}
	a.MarkUsed(s)
	if _, _, n := a.Counts(); n != 0 {
		t.Errorf("%d are silent, want none", n)
	}
}

// A TLS connection takes three descriptors, so there are fewer places.
func TestConnectionsMaxDefaultReckonsWithTLS(t *testing.T) {
	var p ConnLimit
	p.Begin(0)
	free := p.descriptors
	for _, step := range []struct {
		what string
		does func()
		want int64
	}{
		{"one in, one out", func() {}, free / 2},
		{"TLS in", func() { p.ReserveTLSIn() }, free / 4},
		{"TLS in, again", func() { p.ReserveTLSIn() }, free / 4},
		{"TLS on both sides", func() { p.ReserveTLSOut() }, free / 6},
	} {
		step.does()
		if got := p.Most(); got != step.want {
			t.Errorf("%s: %d places of %d descriptors, want %d", step.what, got, free, step.want)
		}
	}
	var set ConnLimit
	set.Begin(1000)
	set.ReserveTLSIn()
	if got := set.Most(); got != 1000 {
		t.Errorf("a setting of 1000 became %d", got)
	}
}
