package loop

import "net/netip"

// admit counts a connection from addr in, or says no and counts that.
func (g *Group) admit(addr netip.Addr) bool {
	if g.open.Add(1) > g.places.Most() {
		g.open.Add(-1)
		g.stats.refused.Add(1)
		return false
	}
	if !g.addresses.Enter(addr) {
		g.open.Add(-1)
		g.stats.refusedAddress.Add(1)
		return false
	}
	g.stats.accepted.Add(1)
	return true
}

// leave gives back what admit counted for c. It is called when the socket to
// the client is closed: for a TLS connection that is after the Conn is gone.
// The Group's count comes last: when it falls, the place is free.
func (g *Group) leave(c *Conn) {
	g.addresses.Leave(c.remote.Addr())
	c.loop.open.Add(-1)
	g.open.Add(-1)
}
