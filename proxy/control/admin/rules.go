package admin

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goccy/go-json"

	"weir/internal/data/strict"
	"weir/internal/program/watch"
	"weir/proxy/rules/rule"
	"weir/proxy/store"
)

// RulesName is the document that holds the rules of /config/rules.
const RulesName = "ratelimiter:rules"

// SourceFile is the source of rules from RULES_FILE.
const SourceFile = "file"

// RuleFiles names the files that rules are read from; empty: none.
type RuleFiles struct {
	Rules   string       // RULES_FILE
	Clients string       // CLIENTS_FILE
	Options rule.Options // for reading them, without the clients
}

// ActiveRules are the rules in force.
//
// Immutable after New.
type ActiveRules struct {
	Set *rule.Set
	// Epoch increases with every change of the Set, on this proxy only.
	Epoch int64
	ChangeInfo
	Clients int // number of clients in CLIENTS_FILE
}

// Rules keeps the rules in force. They are those of RULES_FILE; without it the store shares them
// with all proxies, like the limit configuration: see [Limits.Observe]. In both cases
// CLIENTS_FILE has the limits of individual clients.
//
// Invalid input changes nothing: a set is made from rules and clients as a whole, or not at all.
//
// Safe for concurrent use: readers load one pointer; mu admits one writer at a time.
type Rules struct {
	document[ActiveRules] // has no docs if RULES_FILE has the rules

	files RuleFiles

	changing sync.Mutex // held by the one request that changes something

	// Guarded by the document's mu:
	text     []byte        // of the rules in force, in the form of a file
	clients  *rule.Clients // in force
	sum      [sha256.Size]byte
	returned string // error of a file that Reload has returned; not logged again by the next look at the files

	fileIgnored atomic.Pointer[fileError] // nil: the files are in force
}

// NewRules starts with the content of the files, and without RULES_FILE with that of
// docs. An unavailable store is not an error: there are no rules until Observe or Sync
// reads it. A file that cannot be read or is invalid is a *service.SettingError.
func NewRules(now time.Time, files RuleFiles, docs store.DocumentStore,
	logger func(component string) *slog.Logger) (*Rules, error) {
	r := &Rules{files: files, text: []byte(rule.NoRules)}
	r.name, r.title, r.noun, r.lost, r.log = RulesName, RulesName, "Rules", "Rules were", logger("ConfigController")
	r.situation, r.read, r.info = situationNowhere, r.readEntry, func(a *ActiveRules) *ChangeInfo { return &a.ChangeInfo }
	settings := ChangeInfo{Source: SourceDefault, UpdatedAt: now}
	r.active.Store(&ActiveRules{ChangeInfo: settings})
	if files.Rules == "" {
		r.docs = docs
	}
	if _, err := r.readFiles(now); err != nil {
		return nil, err.setting()
	}
	if r.Active().Set == nil { // without a file there is nothing that could be invalid
		set, err := r.compose(r.text, r.clients, nil)
		if err != nil {
			return nil, err
		}
		r.active.Store(&ActiveRules{Set: set, ChangeInfo: settings})
	}
	if r.docs != nil {
		r.Sync(now)
	} else if doc, err := docs.Read(RulesName); err == nil && doc.Version != 0 {
		r.log.Warn("RULES_FILE overrides the rules in the store", "file", files.Rules)
	}
	return r, nil
}

// Share keeps the rules up to date with files and store until ctx ends. Files are read again when
// they change. The store reports the changes of other proxies; changes that could not be written
// are retried every pause.
func (r *Rules) Share(ctx context.Context, shared store.Store, pause time.Duration) {
	names := slices.DeleteFunc([]string{r.files.Rules, r.files.Clients}, func(name string) bool { return name == "" })
	if len(names) > 0 {
		w := watch.New(names...)
		go func() {
			r.refresh(time.Now()) // changes since the start
			w.Run(ctx, func() { r.refresh(time.Now()) })
		}()
	}
	if r.docs != nil {
		r.document.Share(ctx, shared, pause)
	}
}

// Set returns the rules in force.
func (r *Rules) Set() *rule.Set { return r.active.Load().Set }

// errRulesFile means that rules come from a file and cannot be changed by the API.
var errRulesFile = errors.New("the rules are those of RULES_FILE")

// Put replaces the rules by those of text, which has the form of RULES_FILE, and stores them.
// While the store is unavailable, Stored is false and Sync stores them later. ifMatch is the
// version in force here that the change is based on; -1 means any. The error is a strict.Faults
// if the text is invalid, a store.SizeError if it is too large, ErrConflict if another writer was
// first, or says that the rules come from a file. Then nothing has changed.
func (r *Rules) Put(now time.Time, text []byte, ifMatch int64) (*ActiveRules, error) {
	if r.docs == nil {
		return nil, fmt.Errorf("%w, %s: change them there", errRulesFile, r.files.Rules)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	o := r.files.Options
	o.Clients, o.IgnoredMembers = r.clients, answerMembers
	set, err := rule.Read(text, o)
	if err != nil {
		return nil, err
	}
	document, err := set.MarshalJSON()
	if err != nil {
		return nil, fmt.Errorf("write %s: %w", RulesName, err)
	}
	return r.write(now, basis{ifMatch: ifMatch}, func(at time.Time) (*entry, error) {
		body, err := json.MarshalWithOption(storedRules{at, document}, json.DisableHTMLEscape())
		if err != nil {
			return nil, fmt.Errorf("write %s: %w", RulesName, err)
		}
		return &entry{UpdatedAt: at, body: body, force: func(version int64, stored bool) error {
			r.enforce(document,
				ActiveRules{Set: set, ChangeInfo: ChangeInfo{Version: version, Source: SourceAPI, UpdatedAt: at, Stored: stored}})
			return nil
		}}, nil
	})
}

// compose makes a set from rules and clients. Unknown fields are faults if unknown is nil.
func (r *Rules) compose(text []byte, clients *rule.Clients, unknown func(strict.Fault)) (*rule.Set, error) {
	o := r.files.Options
	o.Clients, o.Unknown = clients, unknown
	return rule.Read(text, o)
}

// storedRules is the JSON of the document with the rules. It starts like stored.
type storedRules struct {
	UpdatedAt time.Time  `json:"updatedAt"`
	Document  strict.Raw `json:"document"`
}

func (r *Rules) readEntry(doc store.Document) (*entry, error) {
	var s storedRules
	e, err := decodeStored(doc, &s)
	if err != nil {
		return nil, err
	}
	e.UpdatedAt, e.force = s.UpdatedAt, func(version int64, stored bool) error {
		set, err := r.compose(s.Document, r.clients, func(f strict.Fault) { e.unknown = cmp.Or(e.unknown, f.Error()) })
		if err != nil {
			return err
		}
		r.enforce(s.Document,
			ActiveRules{Set: set, ChangeInfo: ChangeInfo{Version: version, Source: SourceAPI, UpdatedAt: s.UpdatedAt,
				Stored: stored}})
		return nil
	}
	return e, nil
}

// enforce swaps the rules, given as text and as next, and logs it. The caller holds mu.
func (r *Rules) enforce(text []byte, next ActiveRules) {
	r.text = text
	next.Epoch = r.Active().Epoch + 1
	if r.clients != nil {
		next.Clients = r.clients.Len()
	}
	if next.Source == SourceFile {
		next.Version = next.Epoch
	}
	r.active.Store(&next)
	r.log.Info(fmt.Sprintf("Applied new rules: rules=%d, clients=%d, source=%s", next.Set.Len(), next.Clients,
		next.Source))
	r.warnOf(next.Set.Notes(), "Parts of the rules have no effect")
	r.changed()
}

// warnOf logs what is allowed and has no effect.
func (r *Rules) warnOf(notes strict.Faults, message string, args ...any) {
	if len(notes) > 0 {
		r.log.Warn(message, append(args, "what", notes)...)
	}
}

func faultsOf(err error) strict.Faults {
	faults, _ := errors.AsType[strict.Faults](err)
	return faults
}
