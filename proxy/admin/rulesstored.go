package admin

import (
	"cmp"
	"fmt"
	"time"

	"github.com/goccy/go-json"

	"weir/internal/strict"
	"weir/proxy/store"
)

// storedRules is the JSON of the document with the rules. It starts like stored.
type storedRules struct {
	UpdatedAt time.Time  `json:"updatedAt"`
	Document  strict.Raw `json:"document"`
}

// newRulesEntry returns the entry of a change made at the given time.
func newRulesEntry(at time.Time, document []byte) (*entry, error) {
	c := &entry{UpdatedAt: at}
	var err error
	if c.body, err = json.MarshalWithOption(storedRules{at, document}, json.DisableHTMLEscape()); err != nil {
		return nil, fmt.Errorf("write %s: %w", RulesName, err)
	}
	return c, nil
}

// readEntry returns the entry in a document of the store.
func (r *Rules) readEntry(doc store.Document) (*entry, error) {
	var s storedRules
	e, err := decodeStored(doc, &s)
	if err != nil {
		return nil, err
	}
	e.UpdatedAt, e.force = s.UpdatedAt, func(version int64, stored bool) error {
		set, err := r.composeWith(s.Document, r.clients, func(f strict.Fault) { e.unknown = cmp.Or(e.unknown, f.Error()) })
		if err != nil {
			return err
		}
		r.enforce(s.Document, ActiveRules{Set: set, Held: Held{Version: version, Source: SourceAPI, UpdatedAt: s.UpdatedAt, Stored: stored}})
		return nil
	}
	return e, nil
}
