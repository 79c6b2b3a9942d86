package admin

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"github.com/goccy/go-json"

	"weir/internal/strictjson"
	"weir/proxy/limit"
	"weir/proxy/session"
	"weir/proxy/store"
)

// ConfigName is the document that holds the limit configuration.
const ConfigName = "ratelimiter:config"

// Documents is where the configuration is kept for all proxies of a store. Its
// methods are those of simredis.Documents and of redis.Client; an error means
// that the store is away, and then a write may have happened or not.
type Documents interface {
	Read(name string) (store.Document, error)
	CompareAndSet(name string, version int64, body []byte) (store.Document, bool, error)
}

// stored is the document's JSON.
type stored struct {
	Config    limit.Config `json:"config"`
	Source    string       `json:"source"`
	UpdatedAt time.Time    `json:"updatedAt"`
	Pinned    bool         `json:"pinned,omitempty"`
	Deleted   bool         `json:"deleted,omitempty"` // back to the settings
}

// An entry is a change as the store keeps it. The body goes from proxy to proxy
// and back to the store as it is, so that all of them mean the same change by it.
//
// Immutable after New.
type entry struct {
	stored
	body []byte
}

// entryOf is the entry that puts a in force everywhere.
func entryOf(a *Active) (*entry, error) {
	e := &entry{stored: stored{Config: a.Config, Source: a.Source, UpdatedAt: a.UpdatedAt, Pinned: a.Pinned,
		Deleted: a.Source == SourceDefault}}
	var err error
	if e.body, err = json.Marshal(e.stored); err != nil {
		return nil, fmt.Errorf("write %s: %w", ConfigName, err)
	}
	return e, nil
}

var errForeign = errors.New("something else than a proxy has written it")

// readEntry is the entry that a document holds. A negative version is one that no
// proxy has given.
func readEntry(doc store.Document) (*entry, error) {
	if doc.Version < 0 {
		return nil, errForeign
	}
	e := &entry{body: bytes.Clone(doc.Body)}
	if err := strictjson.Decode(e.body, &e.stored); err != nil {
		return nil, err
	}
	return e, nil
}

// laterThan reports whether e is the later change; any is later than none.
// Different changes of the same instant have an order, too: which one does not
// matter, as long as all proxies agree.
func (e *entry) laterThan(known *entry) bool {
	if known == nil {
		return true
	}
	if c := e.UpdatedAt.Compare(known.UpdatedAt); c != 0 {
		return c > 0
	}
	return bytes.Compare(e.body, known.body) > 0
}

// activate is what e, kept as version, puts in force.
func (l *Limits) activate(e *entry, version int64) (*Active, error) {
	if e.Deleted {
		a, err := l.fromDefaults(e.UpdatedAt)
		if err == nil {
			a.Version = version
		}
		return a, err
	}
	lim, err := limit.New(e.Config)
	if err != nil {
		return nil, err
	}
	return &Active{Config: e.Config.Merge(l.defaults), Policy: session.NewPolicy(ruleID, lim), Version: version, Source: e.Source,
		UpdatedAt: e.UpdatedAt, Stored: true, Pinned: e.Pinned}, nil
}
