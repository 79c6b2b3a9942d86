package adaptive

import (
	"time"

	"weir/proxy/store"
)

// A Shared is a store that several proxies share.
type Shared interface {
	// Mode returns how the store currently answers: store.Exact while it is available.
	Mode() store.Mode
	// Lease takes or renews a lease for owner, and reports whether owner holds it.
	Lease(name, owner string, ttl time.Duration) (held bool, err error)
	// Release releases the lease if owner holds it.
	Release(name, owner string) error
}

const (
	leaseName = "ratelimiter:adaptive-leader" // of the proxy that applies recommendations
	// leaseTime bounds how long no proxy applies recommendations after the holder has died. The
	// lease is renewed three times in that time, whatever the interval of updates.
	leaseTime  = 3 * time.Second
	leasePause = leaseTime / 3
)

// A lease is the right to apply recommendations. A proxy whose store is not shared always has it.
//
// Owned by the goroutine of its Adaptive.
type lease struct {
	shared Shared // nil: the simulated store
	owner  string
	until  time.Time // when it ends, unless it is renewed; zero: this proxy does not hold it
	taken  bool      // another proxy holds it, according to the store's last answer
}

// renew takes or renews the lease. If the store does not answer, an earlier grant is valid until
// its end; after that it is unknown which proxy holds the lease.
func (l *lease) renew(now time.Time) {
	if l.shared == nil {
		return
	}
	held, err := l.shared.Lease(leaseName, l.owner, leaseTime)
	l.taken = err == nil && !held
	switch {
	case l.taken:
		l.until = time.Time{}
	case err == nil:
		l.until = now.Add(leaseTime) // earlier than the end in the store, which counts from later
	}
}

// held reports whether this proxy holds the lease at now.
func (l *lease) held(now time.Time) bool { return l.shared == nil || now.Before(l.until) }

// release releases the lease, so that another proxy need not wait for its end.
func (l *lease) release(now time.Time) {
	if l.shared != nil && l.held(now) {
		_ = l.shared.Release(leaseName, l.owner) // on failure the lease expires
	}
	l.until = time.Time{}
}

// mode returns how the store answers; a simulated one is always available.
func (l *lease) mode() store.Mode {
	if l.shared == nil {
		return store.Exact
	}
	return l.shared.Mode()
}
