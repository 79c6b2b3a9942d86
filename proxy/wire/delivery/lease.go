package delivery

import (
	"context"
	"maps"
	"slices"
	"time"

	"weir/internal/timing/every"
	"weir/proxy/deferred"
)

// A claim takes back the entries of all proxies whose leases have passed. While the queue does not
// answer, or this process is stopped, leases pass that nobody has given up, and deliveries that have
// ended cannot be settled. So the leases are renewed before anything is claimed again.

const (
	// renewEvery is how often leases are renewed, and renewAgain how often while that fails.
	renewEvery = deferred.LeaseDuration / 3
	renewAgain = time.Second
	// renewMax is the longest time between two renewals after which no proxy can have lost a lease,
	// though others have renewed theirs up to renewEvery earlier.
	renewMax = deferred.LeaseDuration / 2
	// othersRenew is the pause after a longer time. Within it the other proxies notice that the queue
	// answers again, and renew their leases. A queue tries again four times a second, but an attempt
	// may take 3 s.
	othersRenew = 5 * time.Second
)

// renew renews the leases until the queue is closed. A delivery whose lease is lost continues,
// because it cannot be undone; its settlement will be refused.
func (d *Dispatcher) renew() {
	last := time.Now()
	every.Interval(d.life.Done(), renewAgain, func(now time.Time) {
		if now.Sub(last) >= renewEvery && d.renewed(d.life) {
			last = now
		}
	})
}

// renewed renews the leases, and reports whether the queue could. It also asks a queue of which it
// has no leases whether it answers, because those of others pass while it does not.
func (d *Dispatcher) renewed(ctx context.Context) bool {
	q := d.opened()
	if q == nil {
		return true
	}
	d.mu.Lock()
	leases := slices.Collect(maps.Keys(d.underWay))
	d.mu.Unlock()
	asked := time.Now() // if the process is stopped, the answer is read much later
	_, err := q.Renew(ctx, asked, leases)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.failed = err != nil; d.failed { // the queue logs its failures
		return false
	}
	if asked.Sub(d.renewedAt) > renewMax {
		d.claimFrom = time.Now().Add(othersRenew)
	}
	if asked.After(d.renewedAt) {
		d.renewedAt = asked
	}
	return true
}

// untilClaim returns how long to wait before the next claim, after it has renewed the leases if
// necessary.
func (d *Dispatcher) untilClaim(ctx context.Context) time.Duration {
	d.mu.Lock()
	due := d.failed || !d.renewedAt.IsZero() && time.Since(d.renewedAt) > renewMax
	d.mu.Unlock()
	if due && !d.renewed(ctx) {
		return retryEvery
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return time.Until(d.claimFrom)
}

// claimed records the outcome of a claim. Before the first one that succeeds there were no leases to
// renew; if one has failed before, the queue may have been away for any time.
func (d *Dispatcher) claimed(asked time.Time, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case err != nil:
		d.failed = true
	case d.renewedAt.IsZero():
		d.renewedAt = asked
	}
}
