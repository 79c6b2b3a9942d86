package loop

import "net/netip"

// admit counts a connection from addr, and reports whether it is within the bounds.
func (g *Group) admit(addr netip.Addr) bool {
	if g.stats.Open.Add(1) > g.places.Most() {
		g.stats.Open.Add(-1)
		g.stats.Refused.Add(1)
		return false
	}
	if !g.addresses.Enter(addr) {
		g.stats.Open.Add(-1)
		g.stats.RefusedAddress.Add(1)
		return false
	}
	g.stats.Accepted.Add(1)
	return true
}

// leave undoes admit for c. It is called when the socket to the client is closed; for a TLS
// connection that is after the end of the Conn. The Group's count falls last, so the place is
// free then.
func (g *Group) leave(c *Conn) {
	g.addresses.Leave(c.remote.Addr())
	c.loop.open.Add(-1)
	g.stats.Open.Add(-1)
}
