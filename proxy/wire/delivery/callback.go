package delivery

import (
	"context"
	"crypto/sha256"
	"errors"
	"math/rand/v2"
	"strings"
	"time"

	json "github.com/goccy/go-json"

	"weir/internal/timing/every"
	"weir/proxy/deferred"
	"weir/proxy/deferred/callback"
)

// A callback is an entry of the same queue. It is stored before the request that it reports is
// settled, so it survives a crash. It has attempts, back-off and dead letters like other entries.
// Its Head is the ID of that request, its Body the JSON to send, and its line that of its
// receiver and the client of the request: what a client has asked for, and what its receiver does
// with it, delays and displaces no callbacks of others.

// CallbackRule is the rule of entries that are callbacks. It contains a space, so no rule of a
// file has this name.
const CallbackRule = "deferred callbacks"

const (
	// storeEvery is the interval for retrying to store a callback. The settlement of its request
	// waits as long.
	storeEvery = time.Second
	// catchUpEvery is how often the dispatcher looks for entries that became unknown when a proxy
	// crashed, if their number has changed. If it has not, the dispatcher looks only every
	// catchUpAnyway intervals, because one entry may have replaced another.
	catchUpEvery  = time.Minute
	catchUpAnyway = 10
	// reasonBytesMax bounds the stored reason why an attempt has failed.
	reasonBytesMax = 200
)

// callbackID returns the ID of the callback about e. It does not depend on the proxy that stores
// it, and changes when e is retried.
func callbackID(e *deferred.Entry) (id deferred.ID) {
	sum := sha256.Sum256(append([]byte("callback "+e.ID.String()), e.Accepted.UTC().Format(time.RFC3339Nano)...))
	copy(id[:], sum[:])
	return id
}

// callbackOf returns the callback about an entry in its final state.
func (d *Dispatcher) callbackOf(now time.Time, e *deferred.Entry) *deferred.PutRequest {
	t := d.termsOf(CallbackRule)
	receiver, err := d.cfg.Hosts.Check(e.Callback)
	if err != nil { // the list has changed since, and the attempts fail with that reason
		receiver = "none"
	}
	c := deferred.Entry{ID: callbackID(e), Rule: CallbackRule, LineKey: callback.ReceiverKey(receiver, e.Client()),
		Order: deferred.SeveralAtATime, Parallel: max(1, d.cfg.Hosts.Parallel()/2), // a client never has more places
		Accepted: now, Due: now, Expires: now.Add(t.WaitMax()), Head: []byte(e.ID.String()), Callback: e.Callback}
	c.Body, _ = json.Marshal(shownOf(e, 0)) // cannot fail
	c.Scope = sha256.Sum256(c.ID[:])        // unique, since the same body may be sent again
	c.Fingerprint = c.Scope
	return &deferred.PutRequest{Entry: c, Follows: true}
}

// announce stores the callback about an entry that is in its final state, or will be when it is
// settled. It retries while the queue cannot be written.
func (d *Dispatcher) announce(q deferred.Queue, e *deferred.Entry) {
	for d.life.Err() == nil {
		now := time.Now()
		s := d.putNew(q, now, d.callbackOf(now, e))
		if s.Outcome != deferred.Unstored {
			d.report(now, CallbackRule, s, func(deferred.PutResult) { d.ring() })
			return
		}
		if errors.Is(s.Err, deferred.ErrClosed) {
			return
		}
		select {
		case <-d.life.Done():
		case <-time.After(storeEvery):
		}
	}
}

// putNew stores an entry unless there is one with its ID, and returns the result.
func (d *Dispatcher) putNew(q deferred.Queue, now time.Time, p *deferred.PutRequest) deferred.PutResult {
	switch _, _, err := q.Read(d.life, p.Entry.ID); {
	case err == nil:
		return deferred.PutResult{Outcome: deferred.Duplicate}
	case !errors.Is(err, deferred.ErrNotFound):
		return deferred.PutResult{Outcome: deferred.Unstored, Err: err}
	}
	stored := make(chan deferred.PutResult, 1)
	p.Done = func(s deferred.PutResult) { stored <- s }
	if bound := d.bound(p); bound != deferred.NoBound {
		return deferred.PutResult{Outcome: deferred.Full, Bound: bound}
	}
	q.Put(now, p)
	return <-stored
}

// bound returns the bound that a further callback would exceed, since the bounds on all entries do
// not apply to callbacks: as many of them may wait as requests, in addition to these. It sets the
// bound on the callback's line: each may have as many as there is room left for others, so that
// many lines do not take all of it.
func (d *Dispatcher) bound(p *deferred.PutRequest) deferred.ExceededBound {
	var open deferred.EntryCount
	for _, r := range d.stats().Rules {
		if r.Rule == CallbackRule {
			open.Entries = waiting(&r)
			open.Bytes = r.States[deferred.Waiting].Bytes + r.States[deferred.Delivering].Bytes
		}
	}
	most := &d.cfg.Limits
	switch {
	case open.Entries >= most.Entries:
		return deferred.BoundEntries
	case open.Bytes+p.Entry.Size() > most.Bytes:
		return deferred.BoundBytes
	}
	p.PerKey = most.Entries - open.Entries
	return deferred.NoBound
}

// inBackground runs a function in a goroutine that Close waits for. After Close it does nothing and returns
// false: claimed entries then stay claimed until their leases expire.
func (d *Dispatcher) inBackground(run func()) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return false
	}
	d.beside.Go(run)
	return true
}

// beginCall starts an attempt to send a callback, if its client has a place at its receiver.
// Otherwise the callback waits, the longer the more clients have places there.
func (d *Dispatcher) beginCall(p *attempt) {
	d.mu.Lock()
	ok, clients := d.calls.Acquire(p.e.LineKey), d.calls.Clients(p.e.LineKey)
	d.mu.Unlock()
	if !ok {
		p.pause(time.Now(), clients)
		return
	}
	d.inBackground(func() {
		p.call()
		d.mu.Lock()
		defer d.mu.Unlock()
		d.calls.Release(p.e.LineKey)
	})
}

// call attempts to send a callback.
func (p *attempt) call() {
	r := CallbackResult{Err: errors.New("DEFER_CALLBACK_HOSTS is not set")}
	if client := p.d.cfg.Post; client != nil {
		r = client.Send(p.d.life, time.Now(), &CallbackMessage{ID: p.e.ID.String(), URL: p.e.Callback, Body: p.e.Body})
	}
	now := time.Now()
	a := deferred.Attempt{N: p.e.Attempts + 1, Status: r.Status, RetryAfter: deferred.RetryAfter(now, r.RetryAfter)}
	to, after := p.terms.JudgeCallback(&a, rand.Float64())
	s := &deferred.Settlement{To: to, Last: deferred.LastAttempt{At: now, Status: r.Status}}
	if r.Err != nil {
		s.Last.Error = strings.ToValidUTF8(r.Err.Error()[:min(reasonBytesMax, len(r.Err.Error()))], "")
	}
	if p.attempted(now, s, after) {
		receiver, _ := callback.ParseReceiverKey(p.e.LineKey)
		if n, ok := p.d.callLog.Allow(now, time.Second); ok {
			p.d.cfg.Log.Warn("Gave up a callback", "host", receiver, "id", string(p.e.Head), "attempts", a.N, "last",
				lastOf(&s.Last), "others", n)
		}
	}
	p.settle(now, s)
}

// catchUp stores, until the dispatcher ends, the callbacks about requests that became unknown
// because a proxy crashed: no delivery has settled those.
func (d *Dispatcher) catchUp() {
	since := time.Now().Add(-deferred.LeaseDuration)
	var known deferred.EntryCount
	same := catchUpAnyway
	look := func(time.Time) {
		began, unknown := time.Now(), d.unknown()
		if same++; unknown != known || same >= catchUpAnyway {
			if d.announceUnknown(since) == nil {
				since, known, same = began.Add(-deferred.LeaseDuration), unknown, 0
			}
		}
	}
	look(since)
	every.Interval(d.life.Done(), catchUpEvery, look)
}

// unknown returns the number and size of the unknown entries.
func (d *Dispatcher) unknown() (sum deferred.EntryCount) {
	for _, r := range d.stats().Rules {
		sum.Entries += r.States[deferred.Unknown].Entries
		sum.Bytes += r.States[deferred.Unknown].Bytes
	}
	return sum
}

// announceUnknown stores the callbacks about requests that became unknown after a time.
func (d *Dispatcher) announceUnknown(since time.Time) error {
	q := d.opened()
	if q == nil {
		return deferred.ErrInUse
	}
	query := deferred.Query{State: deferred.Unknown, Limit: deferred.ListMax}
	for {
		page, err := q.List(d.life, query)
		if err != nil {
			return err
		}
		for _, e := range page.Entries {
			if e.Callback != "" && e.Last.At.After(since) {
				d.announce(q, e)
			}
		}
		if query.After = page.Next; query.After == "" {
			return nil
		}
	}
}

// A shownCallback is a callback as endpoints show it. It does not contain the reason why an
// attempt failed, because that reveals addresses to clients.
type shownCallback struct {
	URL      string `json:"url"`
	State    string `json:"state,omitempty"`
	Attempts int    `json:"attempts,omitempty"`
	Status   int    `json:"status,omitempty"` // of the last answer
}

// shownCallbackOf returns the state of the callback about an entry, or nil if there is none.
func (d *Dispatcher) shownCallbackOf(ctx context.Context, e *deferred.Entry) *shownCallback {
	if e.Callback == "" {
		return nil
	}
	t := &shownCallback{URL: e.Callback}
	if !e.State.Final() {
		return t
	}
	if c, _, err := d.opened().Read(ctx, callbackID(e)); err == nil {
		t.State, t.Attempts, t.Status = c.State.String(), c.Attempts, c.Last.Status
	}
	return t
}
