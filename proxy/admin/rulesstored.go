package admin

import (
	"bytes"
	"fmt"
	"time"

	"github.com/goccy/go-json"

	"weir/internal/strictjson"
	"weir/proxy/store"
)

// storedRules is the JSON of the document that holds the rules.
type storedRules struct {
	Document  strictjson.Raw `json:"document"`
	UpdatedAt time.Time      `json:"updatedAt"`
}

// newRulesEntry is the entry of a change to document made at.
func newRulesEntry(at time.Time, document []byte) (*entry, error) {
	c := &entry{UpdatedAt: at}
	var err error
	if c.body, err = json.Marshal(storedRules{document, at}); err != nil {
		return nil, fmt.Errorf("write %s: %w", RulesName, err)
	}
	return c, nil
}

// readEntry is the entry that a document of the store holds.
func (r *Rules) readEntry(doc store.Document) (*entry, error) {
	if doc.Version < 0 {
		return nil, errForeign
	}
	body := bytes.Clone(doc.Body)
	var s storedRules
	if err := strictjson.Decode(body, &s); err != nil {
		return nil, err
	}
	return &entry{UpdatedAt: s.UpdatedAt, body: body, force: func(version int64, stored bool) error {
		set, err := r.compose(s.Document)
		if err != nil {
			return err
		}
		r.enforce(s.Document, ActiveRules{Set: set, Version: version, Source: SourceAPI, UpdatedAt: s.UpdatedAt, Stored: stored})
		return nil
	}}, nil
}
