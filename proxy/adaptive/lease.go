package adaptive

import (
	"time"

	"weir/proxy/store"
)

// A Shared is the store that several proxies share.
type Shared interface {
	// Mode is how the store answers now: store.Exact while it is there.
	Mode() store.Mode
	// Lease takes or keeps a lease for owner, and reports whether he holds it.
	Lease(name, owner string, ttl time.Duration) (held bool, err error)
	// Release gives it back.
	Release(name, owner string) error
}

const (
	// leaseName is the lease of the proxy that applies recommendations.
	leaseName = "ratelimiter:adaptive-leader"
	// leaseTime is how long no proxy applies any when its holder has died. It is renewed
	// three times as often, whatever the interval of updates.
	leaseTime  = 3 * time.Second
	leasePause = leaseTime / 3
)

// A lease says whether this proxy is the one that applies recommendations. With a
// store of its own it always is.
//
// Owned by the goroutine of its Adaptive.
type lease struct {
	shared Shared // nil: the simulated store
	owner  string
	until  time.Time // when it ends, unless it is renewed; zero: this proxy does not hold it
	taken  bool      // another proxy holds it, as the store has just said
}

// renew takes or keeps the lease. When the store does not answer what it has granted
// before still holds, and after that nobody knows who holds it.
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
		l.until = now.Add(leaseTime) // the store counts from later
	}
}

// held reports whether the lease is this proxy's at now.
func (l *lease) held(now time.Time) bool { return l.shared == nil || now.Before(l.until) }

// release gives the lease back, so that another proxy need not wait for its end.
func (l *lease) release(now time.Time) {
	if l.shared != nil && l.held(now) {
		_ = l.shared.Release(leaseName, l.owner) // it ends by itself
	}
	l.until = time.Time{}
}

// away returns the mode in which the store is replaced; false: it is there.
func (l *lease) away() (store.Mode, bool) {
	if l.shared == nil {
		return store.Exact, false
	}
	m := l.shared.Mode()
	return m, m != store.Exact
}
