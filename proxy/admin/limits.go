// Package admin is the proxy's own endpoints: the limit configuration, health,
// metrics. It works beside the event loops; what it changes is swapped whole
// and seen by the next decision.
package admin

import (
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"weir/proxy/decide"
	"weir/proxy/limit"
	"weir/proxy/store"
)

// ruleID is the id of the one global rule.
const ruleID = "global"

// Sources of a limit configuration.
const (
	SourceDefault = "default" // the settings
	SourceAPI     = "api"
	SourceAdvisor = "advisor"
)

// ErrConflict: another writer was first.
var ErrConflict = errors.New("the configuration has changed meanwhile; read it again, then write")

// ErrPinned: somebody wants the advisor to leave the configuration alone.
var ErrPinned = errors.New("the configuration is pinned until it is changed or deleted")

// Active is the limit configuration in force.
//
// Immutable after New.
type Active struct {
	// Config is what is in force, with the last known values of the other
	// algorithms.
	Config limit.Config
	Policy *decide.Policy
	// Version is that of the document, 0 for the settings. While a change has not
	// reached the store it is the next one: the store may give it another.
	Version int64
	Source  string
	// UpdatedAt is when somebody changed it, by his clock, and later than the change
	// before it; for the settings the start.
	UpdatedAt time.Time
	Stored    bool // the store holds it, not only this proxy; false for the settings
	Pinned    bool
}

// sameChange reports whether both are in force by the same change, whatever is known
// of how the store holds it.
func (a *Active) sameChange(b *Active) bool {
	return a.UpdatedAt.Equal(b.UpdatedAt) && a.Source == b.Source && a.Config == b.Config && a.Pinned == b.Pinned
}

// Limits holds the limit configuration. The store keeps it for all proxies, and
// may be away: then this proxy goes on alone, and the two are brought together
// when the store is back. Of two configurations the one changed later holds; see
// [Limits.Observe].
//
// Safe for concurrent use: readers load one pointer; mu lets one writer work at
// a time.
type Limits struct {
	// OnChange, unless nil, is called after each change of what is in force, one
	// call at a time, by whoever brought the change. It is set before any other use
	// and must not call a method of Limits that changes something.
	OnChange func()
	// InMemory: what the store holds ends with this process. It is set before any
	// other use.
	InMemory bool

	defaults limit.Config
	config   *slog.Logger // ConfigController
	limiter  *slog.Logger // RateLimiter

	mu     sync.Mutex
	ledger *ledger // while it knows no change the settings are in force

	active atomic.Pointer[Active]
}

// NewLimits starts with what docs holds, else with the settings' defaults,
// which must be valid. When docs is away that is no error: the defaults are in
// force until Observe or Sync finds out what it holds.
func NewLimits(now time.Time, defaults limit.Config, docs store.Documents, logger func(component string) *slog.Logger) (*Limits, error) {
	l := &Limits{defaults: defaults, config: logger("ConfigController"), limiter: logger("RateLimiter")}
	l.ledger = &ledger{name: ConfigName, title: "config", noun: "Config", lost: "Config was", docs: docs, log: l.config, read: l.readEntry, show: l.show}
	a, err := l.fromDefaults(now)
	if err != nil {
		return nil, err
	}
	l.active.Store(a)
	l.Sync(now)
	return l, nil
}

func (l *Limits) fromDefaults(now time.Time) (*Active, error) {
	lim, err := limit.New(l.defaults)
	if err != nil {
		return nil, err
	}
	return &Active{Config: l.defaults, Policy: decide.NewPolicy(ruleID, lim), Source: SourceDefault, UpdatedAt: now}, nil
}

// Active is what is in force now.
func (l *Limits) Active() *Active { return l.active.Load() }

// Policy is the part of it that the data path needs.
func (l *Limits) Policy() *decide.Policy { return l.active.Load().Policy }

// A Change is a limit configuration to be put in force.
type Change struct {
	Config  limit.Config
	Source  string
	Pin     bool
	IfMatch int64 // the version in force here that it is based on; -1: any
	// Basis is the change that must be in force still; nil: any. Versions alone do not
	// tell: two that proxies make while the store is away have the same one.
	Basis *Active
	// StoredOnly: while the store is away nothing changes, and the error is ErrAway.
	// What nobody asked for must not go before what a person changes meanwhile on a
	// proxy that reaches the store.
	StoredOnly bool
}

// writeTriesMax bounds how often a change is based anew on what another proxy
// has just written.
const writeTriesMax = 8

// Apply puts a change in force and stores it; when the store is away, Sync stores
// it later, and until then Stored is false. The error is a strict.Fault
// when the configuration is faulty, ErrConflict when another writer was first,
// ErrPinned when the advisor is to leave alone what is in force, ErrAway with
// StoredOnly; nothing has changed here then.
func (l *Limits) Apply(now time.Time, ch Change) (*Active, error) {
	lim, err := limit.New(ch.Config)
	if err != nil {
		return nil, err
	}
	return l.change(now, basis{ifMatch: ch.IfMatch, storedOnly: ch.StoredOnly}, func(old *Active) (*Active, error) {
		if ch.Basis != nil && !old.sameChange(ch.Basis) {
			return nil, ErrConflict
		}
		if old.Pinned && ch.Source == SourceAdvisor {
			return nil, ErrPinned
		}
		return &Active{Config: ch.Config.Merge(old.Config), Policy: decide.NewPolicy(ruleID, lim), Source: ch.Source,
			Pinned: ch.Pin}, nil
	})
}

// Switch changes the algorithm, with the last values known for it, as Apply does.
// A pin stays. ifMatch is as in Change.
func (l *Limits) Switch(now time.Time, a limit.Algorithm, ifMatch int64) (*Active, error) {
	return l.change(now, basis{ifMatch: ifMatch}, func(old *Active) (*Active, error) {
		cfg := old.Config
		cfg.Algorithm = a
		lim, err := limit.New(cfg)
		if err != nil {
			return nil, err
		}
		return &Active{Config: cfg, Policy: decide.NewPolicy(ruleID, lim), Source: SourceAPI, Pinned: old.Pinned}, nil
	})
}

// Delete goes back to the settings, as Apply does. A mark is stored, so that
// nobody puts the old configuration back. ifMatch is as in Change.
func (l *Limits) Delete(now time.Time, ifMatch int64) (*Active, error) {
	return l.change(now, basis{ifMatch: ifMatch}, func(*Active) (*Active, error) { return l.fromDefaults(now) })
}

// change stores what next makes of the configuration in force, dates it and puts it
// in force.
func (l *Limits) change(now time.Time, on basis, next func(old *Active) (*Active, error)) (*Active, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	err := l.ledger.write(now, on, func(at time.Time) (*entry, error) {
		a, err := next(l.Active())
		if err != nil {
			return nil, err
		}
		a.UpdatedAt = at
		return l.newEntry(a)
	})
	if err != nil {
		return nil, err
	}
	return l.Active(), nil
}

// enforce swaps the configuration and says so. mu is held.
func (l *Limits) enforce(old, next *Active) {
	l.active.Store(next)
	l.config.Info(fmt.Sprintf("Applied new config: %s, source=%s", describe(next.Config), next.Source))
	if from, to := old.Config.Algorithm, next.Config.Algorithm; from != to {
		l.limiter.Info(fmt.Sprintf("Switched rate-limiting algorithm from %s to %s", from.LongName(), to.LongName()))
	}
	if l.OnChange != nil {
		l.OnChange()
	}
}

// describe is the configuration as the log has it.
func describe(c limit.Config) string {
	switch c.Algorithm {
	case limit.Token, limit.Leaky:
		return fmt.Sprintf("algorithm=%v, capacity=%d, fillRate=%s", c.Algorithm, c.Capacity, number(c.FillRate))
	case limit.Off:
		return fmt.Sprintf("algorithm=%v", c.Algorithm)
	case limit.GCRA:
		return fmt.Sprintf("algorithm=%v, limit=%d, window=%s, burst=%d", c.Algorithm, c.Limit, number(c.Window), max(1, c.Burst))
	}
	return fmt.Sprintf("algorithm=%v, limit=%d, window=%s", c.Algorithm, c.Limit, number(c.Window))
}

func number(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
