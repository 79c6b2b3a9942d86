package admin

import (
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-json"

	"weir/proxy/config"
	"weir/proxy/store"
	"weir/proxy/store/simredis"
)

// stateVersion is the version of State's JSON. Fields that an older proxy can do
// without are added under the same version; it ignores them.
const stateVersion = 1

// State is what a proxy has only in memory and its successor goes on with.
//
// Immutable.
type State struct {
	Version int `json:"version"`
	// Settings are the URLs of TARGET_URL, Targets those of POST
	// /config/targets; none: there was no POST.
	Settings []string `json:"settings"`
	Targets  []string `json:"targets,omitempty"`
	// Documents are those of the simulated Redis, by name.
	Documents map[string]store.Document `json:"documents,omitempty"`
}

// AppendState appends the JSON of a state. docs is nil with a shared store.
func AppendState(dst []byte, settings, targets []string, docs *simredis.Documents) ([]byte, error) {
	s := State{Version: stateVersion, Settings: settings, Targets: targets}
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
		return dst, fmt.Errorf("write the state for a successor: %w", err)
	}
	return append(dst, text...), nil
}

// ReadState reads what AppendState has written, here or in a proxy of another
// version. Of no text it is a State without anything.
func ReadState(text []byte) (*State, error) {
	s := new(State)
	if len(text) == 0 {
		return s, nil
	}
	if err := json.Unmarshal(text, s); err != nil {
		return new(State), fmt.Errorf("read the state of the proxy before: %w", err)
	}
	if s.Version != stateVersion {
		return new(State), fmt.Errorf("read the state of the proxy before: it has version %d, %d is known", s.Version, stateVersion)
	}
	return s, nil
}

// TargetsFor are the targets that were posted to the proxy before, if this one
// has the same settings: a TARGET_URL that was changed for it is the later word.
// None: those of the settings hold. The error is about a URL.
func (s *State) TargetsFor(settings []string) (list []config.Target, err error) {
	if len(s.Targets) == 0 || !slices.Equal(settings, s.Settings) {
		return nil, nil
	}
	if n := len(s.Targets); n > targetsMax {
		return nil, fmt.Errorf("read the state of the proxy before: it has %d targets, at most %d are allowed", n, targetsMax)
	}
	if list, err = config.ParseTargets(strings.Join(s.Targets, ",")); err != nil {
		return nil, fmt.Errorf("read the state of the proxy before: targets: %w", err)
	}
	return list, nil
}

// Restore puts the documents of the proxy before into docs, which are empty.
func (s *State) Restore(docs *simredis.Documents) {
	for name, doc := range s.Documents {
		if name == ConfigName || name == RulesName {
			docs.Restore(name, doc)
		}
	}
}
