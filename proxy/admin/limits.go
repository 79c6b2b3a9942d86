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

	"weir/internal/strictjson"
	"weir/proxy/limit"
	"weir/proxy/session"
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

// Active is the limit configuration in force.
//
// Immutable after New.
type Active struct {
	// Config is what is in force, with the last known values of the other
	// algorithms.
	Config limit.Config
	Policy *session.Policy
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

	defaults limit.Config
	docs     Documents
	config   *slog.Logger // ConfigController
	limiter  *slog.Logger // RateLimiter

	mu      sync.Mutex
	looked  bool            // the store has answered since the start
	seen    int64           // version of the document last read or written, whether it was understood or not
	known   *entry          // the latest change known, made here or by others; nil: none, the settings are in force
	place   place           // where known is
	ignored *store.Document // what was seen last, if it was not understood

	active atomic.Pointer[Active]
}

// NewLimits starts with what docs holds, else with the settings' defaults,
// which must be valid. When docs is away that is no error: the defaults are in
// force until Observe or Sync finds out what it holds.
func NewLimits(now time.Time, defaults limit.Config, docs Documents, logger func(component string) *slog.Logger) (*Limits, error) {
	l := &Limits{defaults: defaults, docs: docs, config: logger("ConfigController"), limiter: logger("RateLimiter")}
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
	return &Active{Config: l.defaults, Policy: session.NewPolicy(ruleID, lim), Source: SourceDefault, UpdatedAt: now}, nil
}

// Active is what is in force now.
func (l *Limits) Active() *Active { return l.active.Load() }

// Policy is the part of it that the data path needs.
func (l *Limits) Policy() *session.Policy { return l.active.Load().Policy }

// A Change is a limit configuration to be put in force.
type Change struct {
	Config  limit.Config
	Source  string
	Pin     bool
	IfMatch int64 // the version in force here that it is based on; -1: any
}

// writeTriesMax bounds how often a change is based anew on what another proxy
// has just written.
const writeTriesMax = 8

// Apply puts a change in force and stores it; when the store is away, Sync stores
// it later, and until then Stored is false. The error is a *strictjson.Error
// when the configuration is faulty, ErrConflict when another writer was first;
// nothing has changed then.
func (l *Limits) Apply(now time.Time, ch Change) (*Active, error) {
	lim, err := limit.New(ch.Config)
	if err != nil {
		return nil, faulty(err)
	}
	return l.change(now, ch.IfMatch, func(old *Active) (*Active, error) {
		return &Active{Config: ch.Config.Merge(old.Config), Policy: session.NewPolicy(ruleID, lim), Source: ch.Source,
			Pinned: ch.Pin}, nil
	})
}

// Switch changes the algorithm, with the last values known for it, as Apply does.
// A pin stays.
func (l *Limits) Switch(now time.Time, a limit.Algorithm) (*Active, error) {
	return l.change(now, -1, func(old *Active) (*Active, error) {
		cfg := old.Config
		cfg.Algorithm = a
		lim, err := limit.New(cfg)
		if err != nil {
			return nil, faulty(err)
		}
		return &Active{Config: cfg, Policy: session.NewPolicy(ruleID, lim), Source: SourceAPI, Pinned: old.Pinned}, nil
	})
}

// Delete goes back to the settings, as Apply does. A mark is stored, so that
// nobody puts the old configuration back.
func (l *Limits) Delete(now time.Time) (*Active, error) {
	return l.change(now, -1, func(*Active) (*Active, error) { return l.fromDefaults(now) })
}

// change stores what next makes of the configuration in force, dates it and puts
// it in force. ifMatch is the version that the change is based on; -1: any, and then
// the change comes on top of what another proxy has written meanwhile.
func (l *Limits) change(now time.Time, ifMatch int64, next func(old *Active) (*Active, error)) (*Active, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if ifMatch >= 0 && ifMatch != l.Active().Version {
		return nil, ErrConflict
	}
	for range writeTriesMax {
		old := l.Active()
		a, err := next(old)
		if err != nil {
			return nil, err
		}
		a.UpdatedAt = l.stamp(now)
		e, err := entryOf(a)
		if err != nil {
			return nil, err
		}
		doc, written, err := l.docs.CompareAndSet(ConfigName, l.seen, e.body)
		switch {
		case err != nil:
			l.known, l.place = e, placeHere
			a.Version = max(0, l.seen, old.Version) + 1
			l.enforce(old, a)
			l.config.Warn("Config not stored yet, in force on this proxy only", "reason", err)
			return a, nil
		case written:
			l.known, l.place = e, placeStore
			l.seen = doc.Version
			a.Version, a.Stored = doc.Version, !e.Deleted
			l.enforce(old, a)
			return a, nil
		}
		found, _ := l.take(now, doc) // has warned
		if ifMatch >= 0 && (found == findingLater || found == findingUnreadable) {
			return nil, ErrConflict
		}
	}
	return nil, ErrConflict
}

// stamp is when a change made now counts as made: later than the change before
// it, whatever the clocks of those who made the two say. mu is held.
func (l *Limits) stamp(now time.Time) time.Time {
	at := now.UTC().Round(0) // as it is stored: without the monotonic clock's reading
	if l.known != nil && !at.After(l.known.UpdatedAt) {
		return l.known.UpdatedAt.Add(1)
	}
	return at
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

// faulty turns the limit package's faults into one error with a path.
func faulty(err error) error {
	if faults, ok := errors.AsType[limit.Faults](err); ok && len(faults) > 0 {
		return &strictjson.Error{Path: faults[0].Path, Message: faults.Error()}
	}
	return err
}
