// Package admin implements the proxy's own endpoints for the limit configuration, rules,
// keys, targets, templates of refusals, recent decisions and health. It works outside the
// event loops. What it changes is replaced as a whole and takes effect with the next
// decision.
//
// The limit and the rules are documents, which proxies share in a store. An operator may
// pin the limit: then the advisor may not change it ([ErrPinned]).
//
// A document is changed by compare-and-set on its version. If two changes were made
// independently, the one with the later updatedAt wins, because versions start again in an
// emptied store. While the store is unavailable, a change takes effect on this proxy and is
// written later, unless the store has a newer one. Documents that the store has lost are written
// again, including the mark that one was deleted. Unknown fields of a newer proxy are kept. A set
// of rules is compiled as a whole or not at all, by the goroutine that supplies it: the one that
// watches files, handles SIGHUP or observes the document, or that of an own endpoint, one at a
// time.
package admin

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"weir/proxy/limit"
	"weir/proxy/rules/decide"
	"weir/proxy/store"
)

// The sources of a limit configuration.
const (
	SourceDefault = "default" // the settings
	SourceAPI     = "api"
	SourceAdvisor = "advisor"
)

// ErrConflict means that another writer has changed the configuration first.
var ErrConflict = errors.New("the configuration has changed meanwhile; read it again and retry")

// ErrPinned means that the configuration is pinned, and the advisor may not change it.
var ErrPinned = errors.New("the configuration is pinned until it is changed or deleted")

// ActiveLimit is the limit configuration in force.
//
// Immutable after New.
type ActiveLimit struct {
	// Config is the configuration in force, with the last known values of the other
	// algorithms.
	Config limit.Config
	Policy *decide.Policy
	ChangeInfo
	Pinned bool
}

// sameChange reports whether both are in force by the same change, ignoring whether the
// store has it.
func (a *ActiveLimit) sameChange(b *ActiveLimit) bool {
	return a.UpdatedAt.Equal(b.UpdatedAt) && a.Source == b.Source && a.Config == b.Config && a.Pinned == b.Pinned
}

// Limits keeps the limit configuration. The store shares it with all proxies. While the store is
// unavailable this proxy continues with its own, and the two are synchronized when the store is
// back. Of two configurations the one changed later wins; see [Limits.Observe]. While no change
// is known the settings are in force.
//
// Safe for concurrent use, like its document.
type Limits struct {
	document[ActiveLimit]

	defaults limit.Config
	limiter  *slog.Logger // logger of RateLimiter
}

// NewLimits starts with the configuration in docs, or otherwise with the defaults of the
// settings, which must be valid. An unavailable store is not an error: the defaults are
// in force until Observe or Sync reads the store.
func NewLimits(now time.Time, defaults limit.Config, docs store.DocumentStore,
	logger func(component string) *slog.Logger) (*Limits, error) {
	l := &Limits{defaults: defaults, limiter: logger("RateLimiter")}
	l.name, l.title, l.noun, l.lost, l.docs, l.log = ConfigName, "config", "Config", "Config was", docs,
		logger("ConfigController")
	l.situation, l.read, l.info = situationNowhere, l.readEntry, func(a *ActiveLimit) *ChangeInfo { return &a.ChangeInfo }
	a, err := l.fromDefaults(now)
	if err != nil {
		return nil, err
	}
	l.active.Store(a)
	l.Sync(now)
	return l, nil
}

// newActive returns what cfg puts in force; all also has the values of the other algorithms.
func newActive(cfg, all limit.Config, info ChangeInfo, pinned bool) (*ActiveLimit, error) {
	lim, err := limit.New(cfg)
	if err != nil {
		return nil, err
	}
	return &ActiveLimit{Config: all, Policy: decide.NewPolicy(lim), ChangeInfo: info, Pinned: pinned}, nil
}

func (l *Limits) fromDefaults(now time.Time) (*ActiveLimit, error) {
	return newActive(l.defaults, l.defaults, ChangeInfo{Source: SourceDefault, UpdatedAt: now}, false)
}

// Default replaces the limit of the settings, which is in force while no change is.
func (l *Limits) Default(cfg limit.Config) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if cfg == l.defaults {
		return nil
	}
	before := l.defaults
	l.defaults = cfg
	a := l.Active()
	if a.Source != SourceDefault {
		return nil
	}
	next, err := l.fromDefaults(a.UpdatedAt)
	if err != nil {
		l.defaults = before
		return err
	}
	l.enforce(next, l.version, false)
	return nil
}

// Policy returns the part that the data path needs.
func (l *Limits) Policy() *decide.Policy { return l.active.Load().Policy }

// A LimitChange is a limit configuration to put in force.
type LimitChange struct {
	Config  limit.Config
	Source  string
	Pin     bool
	IfMatch int64 // the version in force here that it is based on; -1: any
	// Basis is the change that must still be in force, or nil for any. Versions are not
	// enough: two changes that proxies make while the store is unavailable have the same
	// version.
	Basis *ActiveLimit
	// StoredOnly makes the change fail with ErrUnavailable while the store is unavailable. An
	// automatic change must not override a manual one made meanwhile on a proxy that
	// reaches the store.
	StoredOnly bool
}

// writeTriesMax bounds how often a change is rebased on what another proxy has just
// written.
const writeTriesMax = 8

// Apply puts a change in force and stores it. While the store is unavailable, Stored is
// false and Sync stores it later. The error is a strict.Fault if the configuration is
// invalid, ErrConflict if another writer was first, ErrPinned if the advisor must not
// change what is in force, or ErrUnavailable with StoredOnly. Then nothing has changed here.
func (l *Limits) Apply(now time.Time, ch LimitChange) (*ActiveLimit, error) {
	if err := ch.Config.Validate(); err != nil {
		return nil, err
	}
	return l.alter(now, basis{ifMatch: ch.IfMatch, storedOnly: ch.StoredOnly}, func(old *ActiveLimit) (*ActiveLimit,
		error) {
		if ch.Basis != nil && !old.sameChange(ch.Basis) {
			return nil, ErrConflict
		}
		if old.Pinned && ch.Source == SourceAdvisor {
			return nil, ErrPinned
		}
		return newActive(ch.Config, ch.Config.Merge(old.Config), ChangeInfo{Source: ch.Source}, ch.Pin)
	})
}

// Switch changes the algorithm, using the last values known for it, as Apply does. A pin
// stays. ifMatch is as in LimitChange.
func (l *Limits) Switch(now time.Time, a limit.Algorithm, ifMatch int64) (*ActiveLimit, error) {
	return l.alter(now, basis{ifMatch: ifMatch}, func(old *ActiveLimit) (*ActiveLimit, error) {
		cfg := old.Config
		cfg.Algorithm = a
		return newActive(cfg, cfg, ChangeInfo{Source: SourceAPI}, old.Pinned)
	})
}

// Delete returns to the settings, as Apply does. It stores a mark, so that no other proxy
// writes the old configuration again. ifMatch is as in LimitChange.
func (l *Limits) Delete(now time.Time, ifMatch int64) (*ActiveLimit, error) {
	return l.alter(now, basis{ifMatch: ifMatch}, func(*ActiveLimit) (*ActiveLimit, error) { return l.fromDefaults(now) })
}

// alter puts in force and stores the configuration that next returns for the current one.
func (l *Limits) alter(now time.Time, on basis, next func(old *ActiveLimit) (*ActiveLimit, error)) (*ActiveLimit,
	error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.write(now, on, func(at time.Time) (*entry, error) {
		a, err := next(l.Active())
		if err != nil {
			return nil, err
		}
		a.UpdatedAt = at
		return l.newEntry(a)
	})
}

// enforce swaps the configuration and logs it. The caller holds mu.
func (l *Limits) enforce(next *ActiveLimit, version int64, stored bool) {
	next.Version, next.Stored = version, stored && next.Source != SourceDefault
	old := l.active.Swap(next)
	l.log.Info(fmt.Sprintf("Applied new config: %s, source=%s", next.Config, next.Source))
	if from, to := old.Config.Algorithm, next.Config.Algorithm; from != to {
		l.limiter.Info(fmt.Sprintf("Switched rate-limiting algorithm from %s to %s", from.LongName(), to.LongName()))
	}
	l.changed()
}

// Reload reads the store again. The error is ErrUnavailable, or says why the document is
// unreadable; then what is in force stays.
func (l *Limits) Reload(now time.Time) (*ActiveLimit, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.reload(now); err != nil {
		return nil, err
	}
	return l.Active(), nil
}
