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

	"github.com/goccy/go-json"

	"weir/internal/strictjson"
	"weir/proxy/limit"
	"weir/proxy/session"
	"weir/proxy/store"
)

// ruleID is the id of the one global rule.
const ruleID = "global"

// configName is the document that holds the limit configuration.
const configName = "ratelimiter:config"

// Sources of a limit configuration.
const (
	SourceDefault = "default" // the settings
	SourceAPI     = "api"
	SourceAdvisor = "advisor"
)

// ErrConflict: another writer was first.
var ErrConflict = errors.New("the configuration has changed meanwhile; read it again, then write")

// Documents is where the configuration is kept for all proxies of a store. Its
// methods are those of simredis.Documents.
type Documents interface {
	Read(name string) store.Document
	CompareAndSet(name string, version int64, body []byte) (store.Document, bool, error)
}

// Active is the limit configuration in force.
//
// Immutable after New.
type Active struct {
	// Config is what is in force, with the last known values of the other
	// algorithms.
	Config    limit.Config
	Policy    *session.Policy
	Version   int64
	Source    string
	UpdatedAt time.Time
	Stored    bool
	Pinned    bool
}

// stored is the document's JSON.
type stored struct {
	Config    limit.Config `json:"config"`
	Source    string       `json:"source"`
	UpdatedAt time.Time    `json:"updatedAt"`
	Pinned    bool         `json:"pinned,omitempty"`
	Deleted   bool         `json:"deleted,omitempty"` // back to the settings
}

// Limits holds the limit configuration.
//
// Safe for concurrent use: readers load one pointer; mu lets one writer work at
// a time.
type Limits struct {
	defaults limit.Config
	docs     Documents
	config   *slog.Logger // ConfigController
	limiter  *slog.Logger // RateLimiter

	mu     sync.Mutex
	seen   int64 // version of the document last read or written, whether it was understood or not
	active atomic.Pointer[Active]
}

// NewLimits starts with what docs holds, else with the settings' defaults,
// which must be valid.
func NewLimits(now time.Time, defaults limit.Config, docs Documents, logger func(component string) *slog.Logger) (*Limits, error) {
	l := &Limits{defaults: defaults, docs: docs, config: logger("ConfigController"), limiter: logger("RateLimiter")}
	a, err := l.fromDefaults(now)
	if err != nil {
		return nil, err
	}
	l.active.Store(a)
	doc := docs.Read(configName)
	if doc.Version == 0 {
		return l, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.follow(now, doc); err == nil && l.Active().Source != SourceDefault {
		l.config.Warn("Stored config goes before the settings", "source", l.Active().Source)
	}
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
	IfMatch int64 // the version that it is based on; -1: any
}

// writeTriesMax bounds how often a change is based anew on what another proxy
// has just written.
const writeTriesMax = 8

// Apply puts a change in force and stores it. The error is a *strictjson.Error
// when the configuration is faulty, ErrConflict when another writer was first;
// nothing has changed then.
func (l *Limits) Apply(now time.Time, ch Change) (*Active, error) {
	lim, err := limit.New(ch.Config)
	if err != nil {
		return nil, faulty(err)
	}
	return l.change(now, ch.IfMatch, func(old *Active) (*Active, error) {
		return &Active{Config: ch.Config.Merge(old.Config), Policy: session.NewPolicy(ruleID, lim), Source: ch.Source,
			UpdatedAt: now, Pinned: ch.Pin}, nil
	})
}

// Switch changes the algorithm, with the last values known for it. A pin stays.
func (l *Limits) Switch(now time.Time, a limit.Algorithm) (*Active, error) {
	return l.change(now, -1, func(old *Active) (*Active, error) {
		cfg := old.Config
		cfg.Algorithm = a
		lim, err := limit.New(cfg)
		if err != nil {
			return nil, faulty(err)
		}
		return &Active{Config: cfg, Policy: session.NewPolicy(ruleID, lim), Source: SourceAPI, UpdatedAt: now, Pinned: old.Pinned}, nil
	})
}

// Delete goes back to the settings. A mark is stored, so that nobody puts the
// old configuration back.
func (l *Limits) Delete(now time.Time) (*Active, error) {
	return l.change(now, -1, func(*Active) (*Active, error) { return l.fromDefaults(now) })
}

// change stores what next makes of the configuration in force and puts it in
// force. ifMatch is the version that the change is based on; -1: any, and then
// the change comes on top of what another proxy has written meanwhile.
func (l *Limits) change(now time.Time, ifMatch int64, next func(old *Active) (*Active, error)) (*Active, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for range writeTriesMax {
		old := l.Active()
		if ifMatch >= 0 && ifMatch != old.Version {
			return nil, ErrConflict
		}
		a, err := next(old)
		if err != nil {
			return nil, err
		}
		doc, written, err := l.write(a)
		switch {
		case err != nil:
			return nil, err
		case written:
			l.enforce(old, a)
			return a, nil
		}
		_ = l.follow(now, doc) // has warned
		if ifMatch >= 0 {
			return nil, ErrConflict
		}
	}
	return nil, ErrConflict
}

// write stores a, unless somebody else has written since the last look: then it
// returns what there is. mu is held.
func (l *Limits) write(a *Active) (doc store.Document, written bool, err error) {
	deleted := a.Source == SourceDefault
	body, err := json.Marshal(stored{Config: a.Config, Source: a.Source, UpdatedAt: a.UpdatedAt, Pinned: a.Pinned, Deleted: deleted})
	if err != nil {
		return doc, false, fmt.Errorf("write %s: %w", configName, err)
	}
	doc, written, err = l.docs.CompareAndSet(configName, l.seen, body)
	if written {
		l.seen = doc.Version
		a.Version, a.Stored = doc.Version, !deleted
	}
	return doc, written, err
}

// Reload reads the store again.
func (l *Limits) Reload(now time.Time) (*Active, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	doc := l.docs.Read(configName)
	if doc.Version == 0 || doc.Version == l.Active().Version {
		return l.Active(), nil
	}
	if err := l.follow(now, doc); err != nil {
		return nil, err
	}
	return l.Active(), nil
}

// follow puts the stored configuration in force. One that cannot be understood
// is left alone, with a warning, and what is in force stays; the next change
// takes its place. mu is held.
func (l *Limits) follow(now time.Time, doc store.Document) error {
	l.seen = doc.Version
	next, err := l.read(now, doc)
	if err != nil {
		err = fmt.Errorf("read %s: %w", configName, err)
		l.config.Warn("Stored config ignored, what is in force stays", "reason", err)
		return err
	}
	l.enforce(l.Active(), next)
	return nil
}

// read is the configuration that a document holds.
func (l *Limits) read(now time.Time, doc store.Document) (*Active, error) {
	var s stored
	if err := strictjson.Decode(doc.Body, &s); err != nil {
		return nil, err
	}
	if s.Deleted {
		a, err := l.fromDefaults(now)
		if err == nil {
			a.Version = doc.Version
		}
		return a, err
	}
	lim, err := limit.New(s.Config)
	if err != nil {
		return nil, err
	}
	return &Active{Config: s.Config.Merge(l.defaults), Policy: session.NewPolicy(ruleID, lim), Version: doc.Version, Source: s.Source,
		UpdatedAt: s.UpdatedAt, Stored: true, Pinned: s.Pinned}, nil
}

// enforce swaps the configuration and says so.
func (l *Limits) enforce(old, next *Active) {
	l.active.Store(next)
	l.config.Info(fmt.Sprintf("Applied new config: %s, source=%s", describe(next.Config), next.Source))
	if from, to := old.Config.Algorithm, next.Config.Algorithm; from != to {
		l.limiter.Info(fmt.Sprintf("Switched rate-limiting algorithm from %s to %s", from.LongName(), to.LongName()))
	}
}

// describe is the configuration as the log has it.
func describe(c limit.Config) string {
	if c.Algorithm == limit.Token {
		return fmt.Sprintf("algorithm=%v, capacity=%d, fillRate=%s", c.Algorithm, c.Capacity, number(c.FillRate))
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
