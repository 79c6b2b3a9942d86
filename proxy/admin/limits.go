// Package admin is the proxy's own endpoints: the limit configuration, health,
// metrics. It works beside the event loops; what it changes is swapped whole
// and seen by the next decision.
package admin

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
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
	Policy    session.Policy
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
	if doc := docs.Read(configName); doc.Version > 0 {
		l.mu.Lock()
		defer l.mu.Unlock()
		if err := l.follow(now, doc); err != nil {
			l.config.Warn("Stored config ignored, the settings stay in force", "reason", err)
		} else if l.Active().Source != SourceDefault {
			l.config.Warn("Stored config goes before the settings", "source", l.Active().Source)
		}
	}
	return l, nil
}

func (l *Limits) fromDefaults(now time.Time) (*Active, error) {
	lim, err := limit.New(l.defaults)
	if err != nil {
		return nil, err
	}
	return &Active{Config: l.defaults, Policy: policyOf(lim), Source: SourceDefault, UpdatedAt: now}, nil
}

// policyOf describes lim. For a token bucket the quota is its capacity and the
// window the time it takes to fill.
func policyOf(lim limit.Limit) session.Policy {
	p := session.Policy{Rule: ruleID, Limit: lim, Quota: lim.Permits()}
	window := lim.Window().Seconds()
	if lim.Algorithm() == limit.Token {
		window = float64(lim.Permits()) / lim.Rate()
	}
	p.Window = max(1, int64(math.Ceil(window)))
	return p
}

// Active is what is in force now.
func (l *Limits) Active() *Active { return l.active.Load() }

// Policy is the part of it that the data path needs.
func (l *Limits) Policy() *session.Policy { return &l.active.Load().Policy }

// A Change is a limit configuration to be put in force.
type Change struct {
	Config  limit.Config
	Source  string
	Pin     bool
	IfMatch int64 // the version that it is based on; -1: any
}

// Apply puts a change in force and stores it. The error is a *strictjson.Error
// when the configuration is faulty, ErrConflict when another writer was first;
// nothing has changed then.
func (l *Limits) Apply(now time.Time, ch Change) (*Active, error) {
	lim, err := limit.New(ch.Config)
	if err != nil {
		return nil, faulty(err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	old := l.Active()
	if ch.IfMatch >= 0 && ch.IfMatch != old.Version {
		return nil, ErrConflict
	}
	next := &Active{Config: ch.Config.Merge(old.Config), Policy: policyOf(lim), Source: ch.Source,
		UpdatedAt: now, Pinned: ch.Pin}
	if err := l.store(next, false); err != nil {
		return nil, err
	}
	l.enforce(old, next)
	return next, nil
}

// Switch changes the algorithm, with the last values known for it.
func (l *Limits) Switch(now time.Time, a limit.Algorithm) (*Active, error) {
	old := l.Active()
	cfg := old.Config
	cfg.Algorithm = a
	return l.Apply(now, Change{Config: cfg, Source: SourceAPI, Pin: old.Pinned, IfMatch: -1})
}

// Delete goes back to the settings. A mark is stored, so that nobody puts the
// old configuration back.
func (l *Limits) Delete(now time.Time) (*Active, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	next, err := l.fromDefaults(now)
	if err != nil {
		return nil, err
	}
	old := l.Active()
	if err := l.store(next, true); err != nil {
		return nil, err
	}
	l.enforce(old, next)
	return next, nil
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

// follow puts the stored configuration in force; mu is held.
func (l *Limits) follow(now time.Time, doc store.Document) error {
	var s stored
	if err := strictjson.Decode(doc.Body, &s); err != nil {
		return fmt.Errorf("read %s: %w", configName, err)
	}
	next, err := l.fromDefaults(now)
	if err != nil {
		return err
	}
	if !s.Deleted {
		lim, err := limit.New(s.Config)
		if err != nil {
			return fmt.Errorf("read %s: %w", configName, err)
		}
		next = &Active{Config: s.Config.Merge(l.defaults), Policy: policyOf(lim), Source: s.Source,
			UpdatedAt: s.UpdatedAt, Pinned: s.Pinned, Stored: true}
	}
	next.Version = doc.Version
	l.enforce(l.Active(), next)
	return nil
}

// store writes next under the configuration's name; mu is held.
func (l *Limits) store(next *Active, deleted bool) error {
	body, err := json.Marshal(stored{Config: next.Config, Source: next.Source, UpdatedAt: next.UpdatedAt,
		Pinned: next.Pinned, Deleted: deleted})
	if err != nil {
		return fmt.Errorf("write %s: %w", configName, err)
	}
	doc, written, err := l.docs.CompareAndSet(configName, l.Active().Version, body)
	if err != nil {
		return err
	}
	if !written {
		return ErrConflict
	}
	next.Version, next.Stored = doc.Version, !deleted
	return nil
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
