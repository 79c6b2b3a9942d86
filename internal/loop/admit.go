package loop

import (
	"net/netip"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// A TLS connection takes this many descriptors: the TCP socket and the pair.
const secureDescriptors = 3

// admit counts a connection from addr in, or says no and counts that.
func (g *Group) admit(addr netip.Addr) bool {
	if g.open.Add(1) > g.places.most.Load() {
		g.open.Add(-1)
		g.stats.refused.Add(1)
		return false
	}
	if !g.addresses.enter(addr) {
		g.open.Add(-1)
		g.stats.refusedAddress.Add(1)
		return false
	}
	g.stats.accepted.Add(1)
	return true
}

// leave gives back what admit counted for c. It is called when the socket to
// the client is closed: for a TLS connection that is after the Conn is gone.
// The Group's count comes last, as whoever sees it fall finds the place free.
func (g *Group) leave(c *Conn) {
	g.addresses.leave(c.remote.Addr())
	c.loop.open.Add(-1)
	g.open.Add(-1)
}

// addresses counts the connections of each client address. It holds those that
// have any, so it is no larger than there are connections.
//
// Safe for concurrent use: mu guards counts, most does not change.
type addresses struct {
	most   int // 0: nothing is counted
	mu     sync.Mutex
	counts map[netip.Addr]int
}

// enter counts a connection in, unless it is one too many.
func (a *addresses) enter(addr netip.Addr) bool {
	if a.most <= 0 || !addr.IsValid() {
		return true
	}
	addr = clientOf(addr)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.counts[addr] >= a.most {
		return false
	}
	if a.counts == nil {
		a.counts = make(map[netip.Addr]int)
	}
	a.counts[addr]++
	return true
}

// leave gives back what enter has counted.
func (a *addresses) leave(addr netip.Addr) {
	if a.most <= 0 || !addr.IsValid() {
		return
	}
	addr = clientOf(addr)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.counts[addr]--; a.counts[addr] <= 0 {
		delete(a.counts, addr)
	}
}

// clientOf is what one client has for an address: an IPv4 address, or the /64
// of an IPv6 one, as any host has a whole one to choose from (RFC 4291 section
// 2.5.4).
func clientOf(addr netip.Addr) netip.Addr {
	addr = addr.Unmap()
	if addr.Is4() {
		return addr
	}
	p, err := addr.Prefix(64) // takes the zone off
	if err != nil {
		return addr
	}
	return p.Addr()
}

// places is how many accepted connections there may be: a setting, or what the
// descriptors suffice for. Each is reckoned with one dialled for it, and TLS on
// either side takes its share from when it is first used.
//
// Safe for concurrent use: mu guards the flags' changes, the rest is atomic.
type places struct {
	descriptors int64 // 0: most is a setting
	most        atomic.Int64

	mu                  sync.Mutex
	secureIn, secureOut atomic.Bool
}

// begin sets the bound to most or, if that is 0, by the limit of descriptors.
func (p *places) begin(most int) {
	if most > 0 {
		p.most.Store(int64(most))
		return
	}
	p.descriptors = descriptorsFree()
	p.reckon()
}

// expect notes that TLS is used on one of the sides.
func (p *places) expect(side *atomic.Bool) {
	if side.Load() {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	side.Store(true)
	p.reckon()
}

func (p *places) reckon() {
	if p.descriptors == 0 {
		return
	}
	each := int64(0)
	for _, secure := range []*atomic.Bool{&p.secureIn, &p.secureOut} {
		if secure.Load() {
			each += secureDescriptors
		} else {
			each++
		}
	}
	p.most.Store(max(16, p.descriptors/each))
}

// descriptorsFree is how many descriptors the limit leaves for connections.
func descriptorsFree() int64 {
	var lim unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &lim); err != nil {
		return 2 << 10
	}
	const most = 1 << 20
	return int64(min(lim.Cur, most) - min(descriptorReserve, lim.Cur/2))
}
