package delivery

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"weir/internal/net/share"
	"weir/internal/program/metric"
	"weir/internal/timing/every"
	"weir/proxy/deferred"
	"weir/proxy/deferred/callback"
	"weir/proxy/rules/decide"
	"weir/proxy/rules/keys"
	"weir/proxy/rules/rule"
	"weir/proxy/wire"
)

const (
	// underWayMax bounds the concurrent deliveries, whose requests are in memory.
	underWayMax = 256
	// holdMax bounds how long a delivery that a limit refuses waits on its loop, if its request
	// has an Idempotency-Key. Others wait in the queue.
	holdMax = 500 * time.Millisecond
	// retryEvery is the pause after the queue has failed, or while it is not open yet.
	retryEvery = 100 * time.Millisecond
)

// A Config configures a Dispatcher.
type Config struct {
	// Open opens the queue. After a take-over it is called again while it returns
	// [deferred.ErrInUse].
	Open     func() (deferred.Queue, error)
	Takeover bool
	Policy   func() *decide.Policy
	Rate     int // entries accepted per second
	// SameClient lets only requests with the same key of the rule see the state of a request.
	SameClient bool
	// whether an address is that of a trusted proxy, whose claims about the client count
	Trusts           func(netip.Addr) bool
	ForwardingFields *keys.ForwardingFields // the fields with such claims; nil: the usual ones
	DeadKeep         time.Duration
	Path             string             // prefix of the status URLs for clients
	ProxyURLs        deferred.ProxyURLs // the proxies with queues of their own; nil: there is only one
	Hosts            *callback.Hosts    // hosts that may be called back; nil: none
	Post             *CallbackSender    // sends callbacks
	Limits           deferred.Limits    // those of the queue, which bound the callbacks that wait, too
	Log              *slog.Logger

	callbacks *deferred.Defer // replaced by tests
}

// A Dispatcher stores refused requests and delivers them.
//
// Safe for concurrent use: mu guards the deliveries in progress and their leases, the rest is
// atomic or immutable.
type Dispatcher struct {
	cfg     Config
	queue   atomic.Pointer[deferred.Queue] // nil: not open
	deliver func(*wire.Delivery)
	intake  intake
	lookUps lookUps
	rules   atomic.Pointer[ruleIndex]
	counts  counts
	fullLog every.LogThrottle
	rateLog every.LogThrottle
	goneLog every.LogThrottle
	callLog every.LogThrottle
	openLog every.LogThrottle
	siteLog every.LogThrottle

	wake chan struct{} // capacity 1
	stop context.CancelFunc
	cut  context.CancelFunc // cancels a claim that a server does not answer; one of a file waits for the disk
	done sync.WaitGroup

	life   context.Context // of callbacks and leases; end cancels it
	end    context.CancelFunc
	beside sync.WaitGroup // the goroutines of callbacks and leases

	mu        sync.Mutex
	failed    bool      // the queue has failed since the leases were renewed
	renewedAt time.Time // when that was asked for, or the first claim; zero: before
	claimFrom time.Time // nothing is claimed before
	closed    bool
	underWay  map[deferred.Lease]*attempt // an entry whose lease was lost may be claimed again meanwhile
	places    places                      // of those underWay that are not settled at once
	calls     *callback.InFlight          // callbacks in progress
	empty     chan struct{}               // closed when Close waits and no delivery is in progress
}

// New returns a Dispatcher. Its queue is open, unless a predecessor still uses it.
func New(cfg Config) (*Dispatcher, error) {
	d := &Dispatcher{cfg: cfg, intake: newIntake(cfg.Rate), counts: newCounts(), wake: make(chan struct{}, 1),
		underWay: make(map[deferred.Lease]*attempt), places: places{by: make(map[string]*share.Usage)},
		calls: callback.NewInFlight(cfg.Hosts.Parallel())}
	if d.cfg.callbacks == nil {
		usual := deferred.ForCallbacks()
		d.cfg.callbacks = &usual
	}
	d.life, d.end = context.WithCancel(context.Background())
	if d.cfg.ForwardingFields == nil {
		d.cfg.ForwardingFields, _ = keys.NewForwardingFields(nil) // cannot fail without names
	}
	if err := d.open(); err != nil && (!cfg.Takeover || !errors.Is(err, deferred.ErrInUse)) {
		return nil, err
	}
	return d, nil
}

func (d *Dispatcher) open() error {
	q, err := d.cfg.Open()
	if err == nil {
		d.queue.Store(&q)
	}
	return err
}

// opened returns the queue, or nil if it is not open yet.
func (d *Dispatcher) opened() deferred.Queue {
	if q := d.queue.Load(); q != nil {
		return *q
	}
	return nil
}

// Start starts the deliveries; deliver passes each one to a loop.
func (d *Dispatcher) Start(deliver func(*wire.Delivery)) {
	ctx, stop := context.WithCancel(context.Background())
	claims, cut := context.WithCancel(context.Background())
	d.deliver, d.stop, d.cut = deliver, stop, cut
	d.done.Go(func() { d.run(ctx, claims) })
	d.beside.Go(d.renew) // also while Close waits for deliveries
	if d.cfg.Post != nil {
		d.beside.Go(d.catchUp)
	}
}

// Close makes no further claims, gives back what is claimed and not sent, waits for the other
// deliveries until ctx ends, and closes the queue.
func (d *Dispatcher) Close(ctx context.Context) error {
	if d.stop != nil {
		defer context.AfterFunc(ctx, d.cut)()
		d.stop() // waits for the current claim: otherwise entries would stay claimed and not be delivered
	}
	d.done.Wait()
	d.mu.Lock()
	d.empty = make(chan struct{})
	if len(d.underWay) == 0 {
		close(d.empty)
	}
	unsent := slices.Collect(maps.Values(d.underWay))
	d.mu.Unlock()
	for _, p := range unsent {
		p.withdraw(time.Now())
	}
	select {
	case <-d.empty:
	case <-ctx.Done():
	}
	defer d.beside.Wait()
	defer d.end()
	d.mu.Lock()
	d.closed = true
	d.mu.Unlock()
	if q := d.opened(); q != nil {
		return q.Close()
	}
	return nil
}

// ring wakes run, so that it looks at the queue.
func (d *Dispatcher) ring() { every.Notify(d.wake) }

// run claims and delivers entries until ctx ends.
func (d *Dispatcher) run(ctx, claims context.Context) {
	for {
		var over <-chan time.Time // never, if there is nothing to wait for but ring
		if pause := d.claim(ctx, claims); pause > 0 {
			over = time.After(pause)
		}
		select {
		case <-ctx.Done():
			return
		case <-d.wake:
		case <-over:
		}
	}
}

// claim delivers the entries that are due, and returns the time after which to look again, or 0
// to wait for ring.
func (d *Dispatcher) claim(ctx, claims context.Context) time.Duration {
	q := d.opened()
	if q == nil {
		if err := d.open(); err != nil {
			if errors.Is(err, deferred.ErrInUse) {
				return retryEvery
			}
			if _, ok := d.openLog.Allow(time.Now(), time.Minute); ok {
				d.cfg.Log.Error("Queue cannot be opened, refusing instead", "reason", err)
			}
			return retryEvery
		}
		q = d.opened()
	}
	for ctx.Err() == nil {
		n, except := d.room()
		if n == 0 {
			return 0 // a settlement calls ring
		}
		if wait := d.untilClaim(claims); wait > 0 {
			return wait
		}
		asked := time.Now()
		claimed, next, err := q.Claim(claims, asked, n, except...)
		if d.claimed(asked, err); err != nil {
			return retryEvery
		}
		for i := range claimed {
			d.begin(q, &claimed[i])
		}
		switch {
		case len(claimed) > 0: // there may be more that are due
		case next.IsZero():
			return 0
		default:
			return cmp.Or(max(0, time.Until(next)), time.Millisecond)
		}
	}
	return 0
}

// room returns how many entries may be claimed, and the rules whose entries may not. Rules whose
// targets do not answer must not delay the others: a claim takes half of the free places, and a
// rule with at least as many deliveries as there are free places takes none.
func (d *Dispatcher) room() (n int, except []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	free := underWayMax - len(d.underWay)
	return (free + 1) / 2, d.places.full(free)
}

// begin starts the delivery of one entry, if there is a place for its client. Otherwise the entry
// waits, the longer the more clients of its rule have places.
func (d *Dispatcher) begin(q deferred.Queue, c *deferred.ClaimedEntry) {
	e, t := c.Entry, d.termsOf(c.Entry.Rule)
	p := &attempt{d: d, queue: q, lease: c.Lease, e: e, terms: t}
	now := time.Now()
	expired := !e.Expires.After(now)
	d.mu.Lock()
	d.underWay[p.lease] = p
	p.placed = !expired && d.places.take(e.Rule, clientOf(e))
	clients := d.places.clients(e.Rule)
	d.mu.Unlock()
	switch {
	case expired:
		p.settle(now, &deferred.Settlement{To: deferred.Expired, Keep: d.cfg.DeadKeep})
		return
	case !p.placed:
		p.pause(now, clients)
		return
	}
	if e.Rule == CallbackRule {
		d.beginCall(p)
		return
	}
	request, added := p.request()
	hold := holdMax
	if !e.Keyed() { // otherwise a crash while it waits would make it unknown, though nothing was sent
		hold = 0
	}
	p.delivery = &wire.Delivery{Request: request, Added: added, Remote: e.Remote.Addr(), Secure: e.TLS, Trusted: e.Trusted,
		HoldMax: hold, BytesMax: t.Result.Bytes, Once: !e.Keyed(), Done: p.done}
	d.deliver(p.delivery)
}

// left records that a delivery is settled.
func (d *Dispatcher) left(p *attempt) {
	defer d.ring()
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.underWay, p.lease)
	if p.placed {
		d.places.leave(p.e.Rule, clientOf(p.e))
	}
	if d.empty != nil && len(d.underWay) == 0 {
		close(d.empty)
	}
}

// A ruleIndex finds the rules of one set by their ids.
type ruleIndex struct {
	set  *rule.Set
	byID map[string]*rule.Rule
}

// ruleOf returns a rule in force by its id, or nil.
func (d *Dispatcher) ruleOf(id string) *rule.Rule {
	set := d.cfg.Policy().Rules
	index := d.rules.Load()
	if index == nil || index.set != set {
		index = &ruleIndex{set, make(map[string]*rule.Rule)}
		for i := 0; set != nil && i < set.Len(); i++ {
			index.byID[set.Rule(i).ID] = set.Rule(i)
		}
		d.rules.Store(index)
	}
	return index.byID[id]
}

// termsOf returns the terms of a rule. Requests of a rule that no longer exists are delivered on the
// default terms.
func (d *Dispatcher) termsOf(id string) *deferred.Defer {
	if id == CallbackRule {
		return d.cfg.callbacks
	}
	if r := d.ruleOf(id); r != nil && r.Defer != nil {
		return r.Defer
	}
	usual := deferred.Default()
	return &usual
}

// Register adds the metrics of stored requests to set.
func (d *Dispatcher) Register(set *metric.Set) { d.counts.register(set, d) }
