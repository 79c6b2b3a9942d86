package admin

import (
	"fmt"
	"slices"

	"github.com/goccy/go-json"

	"weir/proxy/config"
	"weir/proxy/store"
	"weir/proxy/store/simredis"
)

// stateVersion is the version of HandoverState's JSON. Fields that an older proxy does not need
// are added under the same version; it ignores them.
const stateVersion = 1

// HandoverState is the part of a proxy's state that is only in memory and is passed to its successor.
//
// Immutable.
type HandoverState struct {
	Version int `json:"version"`
	// Settings are the URLs of TARGET_URL, Targets those of POST /config/targets, if
	// there was one.
	Settings []string `json:"settings"`
	Targets  []string `json:"targets,omitempty"`
	// Documents are those of the simulated Redis, by name.
	Documents map[string]store.Document `json:"documents,omitempty"`
}

// WriteHandoverState returns the JSON of a state. docs is nil with a shared store.
func WriteHandoverState(settings, targets []string, docs *simredis.DocumentStore) ([]byte, error) {
	s := HandoverState{Version: stateVersion, Settings: settings, Targets: targets}
	if docs != nil {
		s.Documents = make(map[string]store.Document)
		for _, name := range []string{ConfigName, RulesName} {
			if doc, err := docs.Read(name); err == nil && doc.Version > 0 {
				s.Documents[name] = doc
			}
		}
	}
	text, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("encode the state for a successor: %w", err)
	}
	return text, nil
}

// ReadHandoverState parses what WriteHandoverState has written, here or in a proxy of another version.
// For empty text it returns an empty HandoverState.
func ReadHandoverState(text []byte) (*HandoverState, error) {
	s := new(HandoverState)
	if len(text) == 0 {
		return s, nil
	}
	if err := json.Unmarshal(text, s); err != nil {
		return new(HandoverState), fmt.Errorf("read the state of the previous proxy: %w", err)
	}
	if s.Version != stateVersion {
		return new(HandoverState), fmt.Errorf("read the state of the previous proxy: version %d is unknown, expected %d",
			s.Version, stateVersion)
	}
	return s, nil
}

// TargetsFor returns the targets that were posted to the predecessor, if this proxy has
// the same settings: a changed TARGET_URL is the later decision. If there are none, the
// settings apply. The error is about a URL.
func (s *HandoverState) TargetsFor(settings []string) (list []config.Target, err error) {
	if len(s.Targets) == 0 || !slices.Equal(settings, s.Settings) {
		return nil, nil
	}
	if n := len(s.Targets); n > targetsMax {
		return nil, fmt.Errorf("read the state of the previous proxy: it has %d targets, at most %d are allowed", n,
			targetsMax)
	}
	if list, _, err = config.TargetsOf(s.Targets); err != nil {
		return nil, fmt.Errorf("read the state of the previous proxy: targets: %w", err)
	}
	return list, nil
}

// Restore puts the documents of the predecessor into docs, which must be empty.
func (s *HandoverState) Restore(docs *simredis.DocumentStore) {
	for name, doc := range s.Documents {
		if name == ConfigName || name == RulesName {
			docs.Restore(name, doc)
		}
	}
}
