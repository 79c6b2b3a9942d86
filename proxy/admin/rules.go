package admin

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
	"weir/internal/strict"

	"weir/proxy/rule"
	"weir/proxy/store"
)

// RulesName is the document that holds the rules of /config/rules.
const RulesName = "ratelimiter:rules"

// SourceFile: RULES_FILE.
const SourceFile = "file"

// RuleFiles says which files rules are read from; empty: none.
type RuleFiles struct {
	Rules   string // RULES_FILE
	Clients string // CLIENTS_FILE
}

// ActiveRules is the rules in force.
//
// Immutable after New.
type ActiveRules struct {
	Set *rule.Set
	// Epoch rises with every change of the Set, on this proxy only.
	Epoch int64
	Held
	Clients int // how many CLIENTS_FILE names
}

// Rules holds the rules in force. They are those of RULES_FILE; without it the
// store keeps them for all proxies, as it does the limit configuration: see
// [Limits.Observe]. In either case CLIENTS_FILE has the limits of single clients.
//
// What is faulty changes nothing: a set is made whole of rules and clients, or not
// at all.
//
// Safe for concurrent use: readers load one pointer; mu lets one writer work at
// a time.
type Rules struct {
	document[ActiveRules] // without docs when RULES_FILE has the rules

	files   RuleFiles
	options rule.Options // but for the clients

	changing sync.Mutex // held by the one request that changes something

	// Guarded by the document's mu:
	text    []byte        // of the rules in force, as a file has them
	clients *rule.Clients // in force
	sum     [sha256.Size]byte
	told    string // what Reload has returned of a file; the next look at the files does not log it again

	fileIgnored atomic.Pointer[fileError] // nil: the files are in force as they are
}

// NewRules starts with what the files hold, and without RULES_FILE with what docs
// holds. When docs is away that is no error: there are no rules until Observe or
// Sync finds out. A file that cannot be read or understood is a
// *service.SettingError.
func NewRules(now time.Time, files RuleFiles, o rule.Options, docs store.Documents, logger func(component string) *slog.Logger) (*Rules, error) {
	r := &Rules{files: files, options: o, text: []byte(rule.NoRules)}
	r.name, r.title, r.noun, r.lost, r.log = RulesName, RulesName, "Rules", "Rules were", logger("ConfigController")
	r.read, r.held = r.readEntry, func(a *ActiveRules) *Held { return &a.Held }
	settings := Held{Source: SourceDefault, UpdatedAt: now}
	r.active.Store(&ActiveRules{Held: settings})
	if files.Rules == "" {
		r.docs = docs
	}
	if _, err := r.readFiles(now); err != nil {
		return nil, err.setting()
	}
	if r.Active().Set == nil { // no file: nothing that could be faulty
		set, err := r.compose(r.text)
		if err != nil {
			return nil, err
		}
		r.active.Store(&ActiveRules{Set: set, Held: settings})
	}
	if r.docs != nil {
		r.Sync(now)
	} else if doc, err := docs.Read(RulesName); err == nil && doc.Version != 0 {
		r.log.Warn("RULES_FILE overrides the rules in the store", "file", files.Rules)
	}
	return r, nil
}

// Set is the rules in force now.
func (r *Rules) Set() *rule.Set { return r.active.Load().Set }

// A RulesFileError says that rules come from a file, and not from the API.
type RulesFileError struct{ File string }

// Error names the file.
func (e *RulesFileError) Error() string {
	return "the rules are those of RULES_FILE, " + e.File + ": change them there"
}

// Put replaces the rules by those of a text as RULES_FILE has it, and stores them;
// while the store is unavailable, Sync stores them later, and until then Stored is false.
// ifMatch is the version in force here that the change is based on; -1: any. The
// error is a strict.Faults when the text is faulty, a store.SizeError when it is too
// large, ErrConflict when another writer was first, a *RulesFileError with RULES_FILE;
// nothing has changed then.
func (r *Rules) Put(now time.Time, text []byte, ifMatch int64) (*ActiveRules, error) {
	if r.docs == nil {
		return nil, &RulesFileError{r.files.Rules}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	set, err := r.compose(text)
	if err != nil {
		return nil, err
	}
	document, err := set.MarshalJSON()
	if err != nil {
		return nil, fmt.Errorf("write %s: %w", RulesName, err)
	}
	err = r.write(now, basis{ifMatch: ifMatch}, func(at time.Time) (*entry, error) {
		c, err := newRulesEntry(at, document)
		if err != nil {
			return nil, err
		}
		c.force = func(version int64, stored bool) error {
			r.enforce(document, ActiveRules{Set: set, Held: Held{Version: version, Source: SourceAPI, UpdatedAt: at, Stored: stored}})
			return nil
		}
		return c, nil
	})
	if err != nil {
		return nil, err
	}
	return r.Active(), nil
}

// compose makes a set of rules and of the clients in force. mu is held.
func (r *Rules) compose(text []byte) (*rule.Set, error) {
	o := r.options
	o.Clients, o.Beside = r.clients, answerMembers
	return rule.Read(text, o)
}

func (r *Rules) composeWith(text []byte, clients *rule.Clients, unknown func(strict.Fault)) (*rule.Set, error) {
	o := r.options
	o.Clients, o.Unknown = clients, unknown
	return rule.Read(text, o)
}

// enforce swaps the rules, which text says, and says so. mu is held.
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
	r.log.Info(fmt.Sprintf("Applied new rules: rules=%d, clients=%d, source=%s", next.Set.Len(), next.Clients, next.Source))
	r.warnOf(next.Set.Notes(), "Parts of the rules have no effect")
	r.changed()
}

// warnOf logs what is allowed and has no effect.
func (r *Rules) warnOf(notes strict.Faults, message string, args ...any) {
	if len(notes) > 0 {
		r.log.Warn(message, append(args, "what", notes)...)
	}
}

// faultsOf are the faults within an error, nil when it has none.
func faultsOf(err error) strict.Faults {
	faults, _ := errors.AsType[strict.Faults](err)
	return faults
}
