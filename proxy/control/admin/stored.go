package admin

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"github.com/goccy/go-json"

	"weir/internal/data/strict"
	"weir/proxy/limit"
	"weir/proxy/store"
)

// ConfigName is the document with the limit configuration.
const ConfigName = "ratelimiter:config"

// stored is the JSON of that document. Its first fields differ in every change, so that a store
// can detect a change by the first bytes.
type stored struct {
	UpdatedAt time.Time    `json:"updatedAt"`
	Config    limit.Config `json:"config"`
	Source    string       `json:"source"`
	Pinned    bool         `json:"pinned,omitempty"`
	Deleted   bool         `json:"deleted,omitempty"` // back to the settings
}

// newEntry returns the entry that puts a in force everywhere.
func (l *Limits) newEntry(a *ActiveLimit) (*entry, error) {
	body, err := json.Marshal(stored{Config: a.Config, Source: a.Source, UpdatedAt: a.UpdatedAt, Pinned: a.Pinned,
		Deleted: a.Source == SourceDefault})
	if err != nil {
		return nil, fmt.Errorf("write %s: %w", ConfigName, err)
	}
	return &entry{UpdatedAt: a.UpdatedAt, body: body, force: func(version int64, stored bool) error {
		l.enforce(a, version, stored)
		return nil
	}}, nil
}

func (l *Limits) readEntry(doc store.Document) (*entry, error) {
	var s stored
	e, err := decodeStored(doc, &s)
	if err != nil {
		return nil, err
	}
	next, err := newActive(s.Config, s.Config.Merge(l.defaults), ChangeInfo{Source: s.Source, UpdatedAt: s.UpdatedAt},
		s.Pinned)
	if s.Deleted {
		next, err = l.fromDefaults(s.UpdatedAt)
	}
	if err != nil {
		return nil, err
	}
	e.UpdatedAt, e.force = s.UpdatedAt, func(version int64, stored bool) error {
		overSettings := l.first && l.known == nil && !s.Deleted
		l.enforce(next, version, stored)
		if overSettings {
			l.log.Warn("Stored config overrides the settings", "source", s.Source, "remedy", "DELETE /config/limits")
		}
		return nil
	}
	return e, nil
}

// decodeStored decodes a document of the store. A negative version is one that no proxy
// assigns. A newer proxy may have written the document: unknown fields are ignored, and
// noted in the entry.
func decodeStored(doc store.Document, into any) (*entry, error) {
	if doc.Version < 0 {
		return nil, errors.New("it was not written by a proxy")
	}
	e := &entry{body: bytes.Clone(doc.Body)}
	err := strict.Decode(e.body, into)
	if err != nil {
		e.unknown = err.Error()
		err = strict.DecodeIgnoringUnknown(e.body, into)
	}
	return e, err
}

// AppendJSON appends the configuration in force as the document that a master shows its sidecars.
func (a *ActiveLimit) AppendJSON(dst []byte) []byte {
	body, err := json.Marshal(a.Config)
	if err != nil {
		panic("bug: admin: " + err.Error()) // numbers and a word
	}
	return append(dst, body...)
}

// ReadLimit reads such a document.
func ReadLimit(doc store.Document) (cfg limit.Config, err error) {
	if err = strict.DecodeIgnoringUnknown(doc.Body, &cfg); err == nil {
		err = cfg.Validate()
	}
	return cfg, err
}
