// Package admit bounds how many connections are accepted: per client, and in total by the
// available descriptors.
package admit

import (
	"net/netip"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

const (
	// A TLS connection takes this many descriptors: the TCP socket and the pair.
	secureDescriptors = 3
	// descriptorReserve is kept free of client connections: upstream
	// connections, the store, logs, files.
	descriptorReserve = 128
)

// Addresses counts the connections of each client address. It holds those that
// have any, so it is no larger than there are connections.
//
// Safe for concurrent use: mu guards counts, Most does not change.
type Addresses struct {
	Most   int // connections of one client; 0: nothing is counted
	mu     sync.Mutex
	counts map[netip.Addr]int
}

// Enter counts a connection in, unless it is one too many.
func (a *Addresses) Enter(addr netip.Addr) bool {
	if a.Most <= 0 || !addr.IsValid() {
		return true
	}
	addr = clientOf(addr)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.counts[addr] >= a.Most {
		return false
	}
	if a.counts == nil {
		a.counts = make(map[netip.Addr]int)
	}
	a.counts[addr]++
	return true
}

// Leave gives back what Enter has counted.
func (a *Addresses) Leave(addr netip.Addr) {
	if a.Most <= 0 || !addr.IsValid() {
		return
	}
	addr = clientOf(addr)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.counts[addr]--; a.counts[addr] <= 0 {
		delete(a.counts, addr)
	}
}

// Counted is how many clients have connections, and how many those are.
func (a *Addresses) Counted() (clients, connections int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, n := range a.counts {
		connections += n
	}
	return len(a.counts), connections
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

// Places is how many accepted connections there may be: a setting, or what the
// descriptors suffice for. Each is reckoned with one dialled for it, and TLS on
// either side takes its share from when it is first used.
//
// Safe for concurrent use: mu guards the flags' changes, the rest is atomic.
type Places struct {
	descriptors int64 // 0: most is a setting
	most        atomic.Int64

	mu                  sync.Mutex
	secureIn, secureOut atomic.Bool
}

// Begin sets the bound to most or, if that is 0, by the limit of descriptors.
func (p *Places) Begin(most int) {
	if most > 0 {
		p.most.Store(int64(most))
		return
	}
	p.descriptors = DescriptorsFree()
	p.reckon()
}

// Most is the bound.
func (p *Places) Most() int64 { return p.most.Load() }

// ExpectIn notes that accepted connections are TLS.
func (p *Places) ExpectIn() { p.expect(&p.secureIn) }

// ExpectOut notes that dialled connections are TLS.
func (p *Places) ExpectOut() { p.expect(&p.secureOut) }

// expect notes that TLS is used on one of the sides.
func (p *Places) expect(side *atomic.Bool) {
	if side.Load() {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	side.Store(true)
	p.reckon()
}

func (p *Places) reckon() {
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

// DescriptorsFree is how many descriptors the limit leaves for connections.
func DescriptorsFree() int64 {
	var lim unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &lim); err != nil {
		return 2 << 10
	}
	const most = 1 << 20
	return int64(min(lim.Cur, most) - min(descriptorReserve, lim.Cur/2))
}
