package delivery

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"weir/internal/test/testkit"
	"weir/proxy/deferred"
	"weir/proxy/rules/decide"
	"weir/proxy/wire"
)

// A oneEntry is a queue of one entry, in virtual time.
type oneEntry struct {
	deferred.Queue
	entry   *deferred.Entry
	away    func() bool // whether the store cannot be reached; nil: it always can
	mu      sync.Mutex
	slow    time.Duration // how long the next renewal takes
	claims  uint64        // how often it was claimed; the last one has the lease
	renewed time.Time     // when the lease passes; zero: it is settled
	settled chan deferred.State
}

var errAway = errors.New("the store is away")

func (q *oneEntry) Claim(context.Context, time.Time, int, ...string) (c []deferred.ClaimedEntry, next time.Time,
	err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch now := time.Now(); {
	case q.away != nil && q.away():
		return nil, next, errAway
	case q.claims == 0 || !q.renewed.IsZero() && !now.Before(q.renewed):
		q.claims++
		c = append(c, deferred.ClaimedEntry{Lease: deferred.Lease{Token: q.claims}, Entry: q.entry})
		q.renewed = now.Add(deferred.LeaseDuration)
	}
	return c, q.renewed, nil
}

func (q *oneEntry) Renew(_ context.Context, _ time.Time, leases []deferred.Lease) (lost []deferred.Lease, err error) {
	q.mu.Lock()
	slow := max(time.Millisecond, q.slow) // on its way to the server
	q.slow = 0
	q.mu.Unlock()
	time.Sleep(slow)
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.away != nil && q.away() {
		return nil, errAway
	}
	for _, l := range leases {
		if l.Token == q.claims && !q.renewed.IsZero() { // also if it has passed, and nobody has claimed since
			q.renewed = time.Now().Add(deferred.LeaseDuration)
		} else {
			lost = append(lost, l)
		}
	}
	return lost, nil
}

// Settle writes the settlement. While the store is away, it tries again a second later.
func (q *oneEntry) Settle(now time.Time, s *deferred.Settlement) {
	q.mu.Lock()
	if q.away != nil && q.away() {
		q.mu.Unlock()
		time.AfterFunc(time.Second, func() { q.Settle(now, s) })
		return
	}
	lost := s.Lease.Token != q.claims || q.renewed.IsZero()
	if !lost {
		q.renewed = time.Time{}
	}
	q.mu.Unlock()
	if lost {
		s.Done(deferred.ErrLease)
		return
	}
	q.settled <- s.To
	s.Done(nil)
}

func (q *oneEntry) Close() error { return nil }

// newEntry returns a queue of an order.
func newEntry() *oneEntry {
	return &oneEntry{settled: make(chan deferred.State, 1),
		entry: &deferred.Entry{Rule: "orders", Expires: time.Now().Add(time.Hour), Head: []byte("POST / HTTP/1.1\r\n")}}
}

// dispatches returns a dispatcher of a queue, without rules.
func dispatches(t *testing.T, q deferred.Queue) *Dispatcher {
	t.Helper()
	p := policy(t, "rules: []\n")
	return testkit.Must(New(Config{Open: func() (deferred.Queue, error) { return q, nil }, Rate: 1,
		Policy: func() *decide.Policy { return p }}))(t)
}

// lasts returns a start of deliveries that are answered after a time.
func lasts(d time.Duration) func(w *wire.Delivery) {
	return func(w *wire.Delivery) {
		w.SendState.Commit()
		time.AfterFunc(d, func() { w.Done(time.Now(), answered()) })
	}
}

// answered is what comes of a delivery that the target has taken.
func answered() *wire.DeliveryResult {
	return &wire.DeliveryResult{Sent: true, Result: deferred.Result{Status: 200}}
}

// closes closes a dispatcher when what is under way has ended.
func (d *Dispatcher) closes(t *testing.T) {
	t.Helper()
	if err := d.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// once fails unless the entry was claimed once and settled once.
func (q *oneEntry) once(t *testing.T) {
	t.Helper()
	if q.claims != 1 || len(q.settled) != 1 {
		t.Errorf("claimed %d times, settled %d times", q.claims, len(q.settled))
	}
}

func (q *oneEntry) Stats() deferred.Stats { return deferred.Stats{} }

// The lease of a delivery that takes long is renewed until it has ended, also while the proxy
// ends: otherwise another proxy would take the request for one that was lost.
func TestLeaseLastsAsLongAsADelivery(t *testing.T) {
	for _, closes := range []time.Duration{time.Hour, time.Second} {
		synctest.Test(t, func(t *testing.T) {
			q := newEntry()
			d := dispatches(t, q)
			d.Start(lasts(10 * deferred.LeaseDuration))
			time.Sleep(min(closes, 11*deferred.LeaseDuration))
			d.closes(t)
			select {
			case to := <-q.settled:
				if to != deferred.Done {
					t.Errorf("it is %s", to)
				}
			default:
				t.Errorf("closed after %v: the lease was lost", closes)
			}
		})
	}
}

// An outage of the store does not take the leases of a proxy's deliveries away: they are renewed
// before this proxy claims again, also if they have passed and if the delivery has ended meanwhile.
// After a short outage they are renewed before another proxy may take them.
func TestLeaseOutlastsAnOutage(t *testing.T) {
	const from = renewEvery - 5*time.Second
	for name, test := range map[string]struct{ lasts, until time.Duration }{
		"a short outage":                        {3 * deferred.LeaseDuration, deferred.LeaseDuration - 5*time.Second},
		"a long outage":                         {3 * deferred.LeaseDuration, 2*deferred.LeaseDuration + 50*time.Millisecond},
		"a delivery that ends during an outage": {renewEvery, 2*deferred.LeaseDuration + 50*time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				q := newEntry()
				q.away = func() bool { return time.Since(began) > from && time.Since(began) < test.until }
				time.AfterFunc(deferred.LeaseDuration, func() { _, _, _ = q.Claim(t.Context(), time.Now(), 1) }) // by another proxy
				q.deliveredOnce(t, test.lasts)
			})
		})
	}
}

// deliveredOnce has a dispatcher deliver the entry, which lasts for a time, and fails unless it is
// claimed and settled once.
func (q *oneEntry) deliveredOnce(t *testing.T, takes time.Duration) {
	t.Helper()
	d := dispatches(t, q)
	d.Start(lasts(takes))
	time.Sleep(4 * deferred.LeaseDuration)
	d.closes(t)
	q.once(t)
}

// A seen is a oneEntry as one of several proxies reaches it.
type seen struct {
	*oneEntry
	away func() bool
}

func (q *seen) Claim(ctx context.Context, now time.Time, n int, except ...string) (c []deferred.ClaimedEntry,
	next time.Time, err error) {
	if q.away() {
		return nil, next, errAway
	}
	return q.oneEntry.Claim(ctx, now, n, except...)
}

func (q *seen) Renew(ctx context.Context, now time.Time, leases []deferred.Lease) (lost []deferred.Lease, err error) {
	if q.away() {
		return nil, errAway
	}
	return q.oneEntry.Renew(ctx, now, leases)
}

// A claim takes the leases of all proxies back that have passed, so after an outage a proxy that
// notices its end first does not claim before the others have renewed theirs. It has no leases
// itself.
func TestLeaseOutlastsAnOutageForOthers(t *testing.T) {
	const until = 2*deferred.LeaseDuration + 50*time.Millisecond
	for name, starts := range map[string]time.Duration{"a proxy that was there": 0,
		"one that has just been started": until - time.Second} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				q := newEntry()
				start := func(until time.Duration) *Dispatcher {
					d := dispatches(t, &seen{q, func() bool { return time.Since(began) > renewEvery && time.Since(began) < until }})
					d.Start(lasts(3 * deferred.LeaseDuration))
					synctest.Wait()
					return d
				}
				all := []*Dispatcher{start(until + renewAgain)}
				time.Sleep(starts)
				all = append(all, start(until))
				time.Sleep(4*deferred.LeaseDuration - starts)
				for _, d := range all {
					d.closes(t)
				}
				q.once(t)
			})
		})
	}
}

// A proxy that was stopped for longer than its leases last renews them before it claims: otherwise
// it would take them back itself. The renewal that it was stopped in says nothing about them.
func TestLeaseOutlastsAStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newEntry()
		q.slow = deferred.LeaseDuration
		q.deliveredOnce(t, 3*deferred.LeaseDuration)
	})
}

// An again is a queue whose entry is claimed again, because the first lease is lost.
type again struct {
	oneEntry
	leases  []deferred.Lease // of the last renewal
	closed  bool
	settled []uint64 // tokens, until it is closed
}

func (q *again) Claim(context.Context, time.Time, int, ...string) (c []deferred.ClaimedEntry, next time.Time,
	err error) {
	if q.claims < 2 {
		q.claims++
		c = append(c, deferred.ClaimedEntry{Lease: deferred.Lease{Token: q.claims}, Entry: q.entry})
	}
	return c, next, nil
}

func (q *again) Renew(_ context.Context, _ time.Time, leases []deferred.Lease) ([]deferred.Lease, error) {
	q.leases = leases
	return nil, nil
}

func (q *again) Settle(_ time.Time, s *deferred.Settlement) {
	if !q.closed {
		q.settled = append(q.settled, s.Lease.Token)
	}
	if s.Lease.Token < q.claims {
		s.Done(deferred.ErrLease)
	} else {
		s.Done(nil)
	}
}

func (q *again) Close() error {
	q.closed = true
	return nil
}

// An entry that is claimed again while its first delivery is still under way, because its lease was
// lost, has two deliveries: the end of one is not that of the other.
func TestClaimedAgain(t *testing.T) {
	for _, closesFirst := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			q := &again{oneEntry: oneEntry{entry: newEntry().entry}}
			d := dispatches(t, q)
			var deliveries []*wire.Delivery
			d.Start(func(w *wire.Delivery) {
				w.SendState.Commit()
				deliveries = append(deliveries, w)
			})
			synctest.Wait()
			ends := func(i int) { deliveries[i].Done(time.Now(), answered()) }
			closing := func() {
				go func() { _ = d.Close(t.Context()) }()
				synctest.Wait()
			}
			if closesFirst {
				closing()
			}
			ends(0)
			time.Sleep(renewEvery)
			synctest.Wait()
			if want := (deferred.Lease{Token: 2}); !slices.Equal(q.leases, []deferred.Lease{want}) {
				t.Errorf("renewed %v, want %v", q.leases, want)
			}
			if !closesFirst {
				closing()
			}
			ends(1)
			synctest.Wait()
			if !slices.Equal(q.settled, []uint64{1, 2}) || !q.closed {
				t.Errorf("closed %v after %v were settled, want both", q.closed, q.settled)
			}
		})
	}
}

// A successor that cannot open the queue, though its predecessor has closed it, says why, once.
func TestOpenFailsAfterTakeover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		faults := []error{deferred.ErrInUse, deferred.ErrInUse, errors.New("disk on fire"), errors.New("disk on fire"), nil}
		q := &oneEntry{claims: 1}
		open := func() (deferred.Queue, error) {
			err := faults[0]
			if len(faults) > 1 {
				faults = faults[1:]
			}
			return q, err
		}
		var log testkit.LogRecords
		p := policy(t, "rules: []\n")
		d := testkit.Must(New(Config{Open: open, Takeover: true, Rate: 1, Policy: func() *decide.Policy { return p },
			Log: log.Logger("Deferred")}))(t)
		d.Start(func(*wire.Delivery) {})
		time.Sleep(time.Second)
		if d.opened() == nil {
			t.Error("the queue is not open")
		}
		d.closes(t)
		lines := strings.Join(log.Taken(), "\n")
		if strings.Count(lines, "disk on fire") != 1 || strings.Contains(lines, deferred.ErrInUse.Error()) {
			t.Errorf("logged\n%s", lines)
		}
	})
}

// A settlement that the queue does not accept, because its lease has expired, is not counted: the
// proxy that now has the request counts its outcome.
func TestLostLeaseDoesNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, lost := range []bool{false, true} {
			q := newEntry()
			d := dispatches(t, q)
			d.Start(func(w *wire.Delivery) {
				if lost {
					q.mu.Lock()
					q.claims++ // by another proxy
					q.mu.Unlock()
				}
				w.SendState.Commit()
				w.Done(time.Now(), answered())
			})
			synctest.Wait()
			d.closes(t)
			counted := 0
			d.each(d.ended)(func(string, uint64) { counted++ })
			if (counted == 0) != lost {
				t.Errorf("lost %v: %d counted", lost, counted)
			}
		}
	})
}
