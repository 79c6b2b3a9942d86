// Package admit bounds how many connections are accepted: per client, in total by the available
// descriptors, and so that one client cannot take all.
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

// Clients counts the connections of each client.
//
// Safe for concurrent use: mu guards held, the rest does not change.
type Clients struct {
	Most int // maximum connections of one client; 0: no limit
	// Shares reports whether a peer is a client among others, which may not take all
	// connections; nil: no peer is.
	Shares func(peer netip.Addr) bool

	mu   sync.Mutex
	held share.Held
}

// A Refusal is why a connection is not accepted.
type Refusal uint8

const (
	Accepted Refusal = iota
	ByMost           // its client has Most connections
	ByShare          // its client has its share, and few connections are left
)

// Enter counts a connection of a peer, unless that is refused. all is the bound on the
// connections of all clients.
func (a *Clients) Enter(peer netip.Addr, all int64) Refusal {
	if !peer.IsValid() {
		return Accepted
	}
	client := share.Of(peer)
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.Most > 0 && a.held.By(client) >= int64(a.Most):
		return ByMost
	case a.Shares != nil && a.Shares(peer) && !a.held.AdmitsUntilShort(client, 1, all):
		return ByShare
	}
	a.held.Add(client, 1)
	return Accepted
}

// Leave undoes an Enter that accepted.
func (a *Clients) Leave(peer netip.Addr) {
	if !peer.IsValid() {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.held.Add(share.Of(peer), -1)
}

// Counted returns the number of clients with connections, and of their connections.
func (a *Clients) Counted() (clients, connections int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.held.Clients(), int(a.held.Total())
}

// Greediest returns the client with the most connections, and how many it has.
func (a *Clients) Greediest() (c share.Client, connections int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.held.Greediest()
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
