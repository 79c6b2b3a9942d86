// Package admit bounds how many connections are accepted: per client, and in total by the
// available descriptors.
package admit

import (
	"net/netip"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"weir/internal/share"
)

const (
	// A TLS connection takes this many descriptors: the TCP socket and the pair.
	secureDescriptors = 3
	// descriptorReserve is kept free of client connections: upstream
	// connections, the store, logs, files.
	descriptorReserve = 128
)

// Addresses counts the connections of each client address. Addresses without connections
// have no entry, so there are at most as many entries as connections.
//
// Safe for concurrent use: mu guards counts, Most does not change.
type Addresses struct {
	Most   int // maximum connections of one client; 0: no limit, and nothing is counted
	mu     sync.Mutex
	counts map[share.Client]int
}

// Enter counts a connection, and reports whether it is within the limit.
func (a *Addresses) Enter(addr netip.Addr) bool {
	if a.Most <= 0 || !addr.IsValid() {
		return true
	}
	client := share.Of(addr)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.counts[client] >= a.Most {
		return false
	}
	if a.counts == nil {
		a.counts = make(map[share.Client]int)
	}
	a.counts[client]++
	return true
}

// Leave undoes a successful Enter.
func (a *Addresses) Leave(addr netip.Addr) {
	if a.Most <= 0 || !addr.IsValid() {
		return
	}
	client := share.Of(addr)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.counts[client]--; a.counts[client] <= 0 {
		delete(a.counts, client)
	}
}

// Counted returns the number of clients with connections, and of their connections.
func (a *Addresses) Counted() (clients, connections int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, n := range a.counts {
		connections += n
	}
	return len(a.counts), connections
}

// Places bounds the accepted connections: by a setting, or by the available descriptors.
// Each accepted connection is assumed to need a dialled one. A side counts as TLS from its
// first use of TLS.
//
// Safe for concurrent use: mu serializes changes of the flags, the rest is atomic.
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
	p.compute()
}

// Most returns the bound.
func (p *Places) Most() int64 { return p.most.Load() }

// ExpectIn records that accepted connections use TLS.
func (p *Places) ExpectIn() { p.expect(&p.secureIn) }

// ExpectOut records that dialled connections use TLS.
func (p *Places) ExpectOut() { p.expect(&p.secureOut) }

func (p *Places) expect(side *atomic.Bool) {
	if side.Load() {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	side.Store(true)
	p.compute()
}

// compute derives the bound from the descriptors, unless it is a setting.
func (p *Places) compute() {
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

// DescriptorsFree returns how many descriptors RLIMIT_NOFILE leaves for connections.
func DescriptorsFree() int64 {
	var lim unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &lim); err != nil {
		return 2 << 10
	}
	const most = 1 << 20
	return int64(min(lim.Cur, most) - min(descriptorReserve, lim.Cur/2))
}
