package delivery

import (
	"context"
	"sync"
	"time"

	"weir/internal/net/share"
	"weir/proxy/deferred"
	"weir/proxy/http/exchange"
)

const (
	// lookUpWithin bounds how long a request waits for the queue before it is forwarded.
	lookUpWithin = 100 * time.Millisecond
	// lookUpsMax bounds the requests that wait for the queue. Each client has its share; further
	// requests are forwarded without being looked up.
	lookUpsMax = 256
)

// LookUp finds out whether an admitted request is stored already, and passes that to known. If the
// queue does not answer in time, it is not. It is a [wire.LookUpFunc].
func (d *Dispatcher) LookUp(_ time.Time, k *exchange.DeferredRequest, known func(bool)) {
	q, c := d.opened(), share.ClientOf(k.Client)
	if q == nil || k.Key == nil || !d.lookUps.begin(c) {
		known(false)
		return
	}
	scope := requestOf(k).Scope(k.Rule.ID, string(k.Line))
	look := func() {
		found := d.find(q, scope)
		d.lookUps.end(c)
		known(found)
	}
	if !d.inBackground(look) {
		d.lookUps.end(c)
		known(false)
	}
}

// find reports whether an entry with a scope is known to be in the queue.
func (d *Dispatcher) find(q deferred.Queue, scope deferred.SHA256) bool {
	ctx, cancel := context.WithTimeout(d.life, lookUpWithin)
	defer cancel()
	found, err := q.Known(ctx, scope)
	return found && err == nil
}

// lookUps counts the requests that wait for the queue.
//
// Safe for concurrent use: mu guards all fields.
type lookUps struct {
	mu      sync.Mutex
	held    share.Usage
	skipped uint64 // requests that were forwarded without being looked up
}

// begin reports whether a request of a client may be looked up. If so, end must follow.
func (l *lookUps) begin(c share.Client) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	ok := l.held.Admits(c, 1, lookUpsMax)
	if ok {
		l.held.Add(c, 1)
	} else {
		l.skipped++
	}
	return ok
}

func (l *lookUps) end(c share.Client) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held.Add(c, -1)
}

// skips returns how many requests were forwarded without being looked up, for lack of room.
func (l *lookUps) skips() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.skipped
}
