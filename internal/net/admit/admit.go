// Package admit bounds how many connections are accepted. There is a bound per client, and a
// bound in total, by the available descriptors, of which one client cannot take all. At the bound
// a new connection replaces one on which nothing was received.
package admit

import (
	"container/list"
	"net/netip"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"weir/internal/net/share"
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

	mu     sync.Mutex
	held   share.Usage
	silent list.List                   // of *UnusedConn: connections on which nothing was received, the oldest first
	own    map[share.Client]*list.List // those of each client, likewise; never empty
}

// An UnusedConn is a connection on which nothing was received yet, so that closing it loses no request.
//
// Owned by the Clients.
type UnusedConn struct {
	client    share.Client
	end       func()
	at, ownAt *list.Element // nil: it is no longer in Clients
}

// A RefusalReason is why a connection is not accepted.
type RefusalReason uint8

const (
	Accepted    RefusalReason = iota
	TotalBound                // all connections are taken, and none can be closed instead
	ClientBound               // its client has Most connections
	ClientShare               // its client has its share, and few connections are left
)

// replacingPart is the part of all connections, rounded up, by which there may be more while those that
// were replaced close.
const replacingPart = 4

// Enter counts a connection of a peer, unless it is refused. all is the bound on the connections
// of all clients; open is their number, including this one. If open is above the bound, a caller
// whose connection is accepted calls EndSilent.
//
// In the share of a client, silent connections of other clients count as free. Otherwise many
// clients, each with one connection that it does not use, would cause the refusal of a client
// that needs several.
func (a *Clients) Enter(peer netip.Addr, all, open int64) RefusalReason {
	if !peer.IsValid() {
		if open > all {
			return TotalBound
		}
		return Accepted
	}
	client := share.ClientOf(peer)
	a.mu.Lock()
	defer a.mu.Unlock()
	room := all + int64(a.silent.Len()-a.silentOf(client))
	switch {
	case open > all && a.silent.Len() == 0 || open > all+(all+replacingPart-1)/replacingPart:
		return TotalBound
	case a.Most > 0 && a.held.Of(client) >= int64(a.Most):
		return ClientBound
	case a.Shares != nil && a.Shares(peer) && !a.held.AdmitsUntilShort(client, 1, room):
		return ClientShare
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
	a.held.Add(share.ClientOf(peer), -1)
}

// Await records that nothing was received yet on a connection that has entered. end closes it; it is
// called by EndSilent, at most once.
func (a *Clients) Await(peer netip.Addr, end func()) *UnusedConn {
	s := &UnusedConn{client: share.ClientOf(peer), end: end}
	a.mu.Lock()
	defer a.mu.Unlock()
	own := a.own[s.client]
	if own == nil {
		if a.own == nil {
			a.own = make(map[share.Client]*list.List)
		}
		own = list.New()
		a.own[s.client] = own
	}
	s.at, s.ownAt = a.silent.PushBack(s), own.PushBack(s)
	return s
}

// MarkUsed undoes an Await: something was received, or the connection is closed. It does nothing after
// EndSilent has chosen the connection.
func (a *Clients) MarkUsed(s *UnusedConn) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.remove(s)
}

func (a *Clients) remove(s *UnusedConn) {
	if s.at == nil {
		return
	}
	own := a.own[s.client]
	a.silent.Remove(s.at)
	own.Remove(s.ownAt)
	s.at, s.ownAt = nil, nil
	if own.Len() == 0 {
		delete(a.own, s.client)
	}
}

func (a *Clients) silentOf(c share.Client) int {
	if own := a.own[c]; own != nil {
		return own.Len()
	}
	return 0
}

// EndSilent ends the connection that has been silent for longest, to make room for a new one of a
// peer. If the peer's client has more than an eighth of the silent connections, EndSilent ends
// one of that client's own, so that the client does not end those of others one after the other.
// It returns false if there is none.
func (a *Clients) EndSilent(peer netip.Addr) bool {
	s := a.takeSilent(share.ClientOf(peer))
	if s != nil {
		s.end()
	}
	return s != nil
}

func (a *Clients) takeSilent(client share.Client) *UnusedConn {
	a.mu.Lock()
	defer a.mu.Unlock()
	from := &a.silent
	if a.silentOf(client) > a.silent.Len()/8 {
		from = a.own[client]
	}
	first := from.Front()
	if first == nil {
		return nil
	}
	s := first.Value.(*UnusedConn)
	a.remove(s)
	return s
}

// Counts returns the number of clients that have connections, the number of their connections,
// and how many of these are silent.
func (a *Clients) Counts() (clients, connections, silent int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.held.Clients(), int(a.held.Total()), a.silent.Len()
}

// Greediest returns the client with the most connections, and how many it has.
func (a *Clients) Greediest() (c share.Client, connections int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.held.Greediest()
}

// ConnLimit bounds the accepted connections: by a setting, or by the available descriptors.
// Each accepted connection is assumed to need a dialled one. A side counts as TLS from the
// first call of ExpectIn or ExpectOut.
//
// Safe for concurrent use: mu serializes changes of the flags, the rest is atomic.
type ConnLimit struct {
	descriptors int64 // 0: most is a setting
	most        atomic.Int64

	mu                  sync.Mutex
	secureIn, secureOut atomic.Bool
}

// Begin sets the bound to most or, if that is 0, by the limit of descriptors.
func (p *ConnLimit) Begin(most int) {
	if most > 0 {
		p.most.Store(int64(most))
		return
	}
	p.descriptors = DescriptorsFree()
	p.compute()
}

// Most returns the bound.
func (p *ConnLimit) Most() int64 { return p.most.Load() }

// ReserveTLSIn records that accepted connections use TLS.
func (p *ConnLimit) ReserveTLSIn() { p.expect(&p.secureIn) }

// ReserveTLSOut records that dialled connections use TLS.
func (p *ConnLimit) ReserveTLSOut() { p.expect(&p.secureOut) }

func (p *ConnLimit) expect(side *atomic.Bool) {
	if side.Load() {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	side.Store(true)
	p.compute()
}

// compute derives the bound from the descriptors, unless it is a setting.
func (p *ConnLimit) compute() {
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
