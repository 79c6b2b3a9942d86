package serve

import (
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"weir/advisor/core"
	"weir/advisor/state"
)

// A mind is the core for all goroutines.
//
// Safe for concurrent use: mu guards the fields below it; nothing is waited for and
// no more than about 100 µs is computed while it is held, but when an image is taken.
type mind struct {
	keep   func(state.Record)       // in the journal; nil: there is none
	fitted func(took time.Duration) // told how long the core took to learn from a snapshot

	mu       sync.Mutex
	core     *core.Core
	sequence uint64 // of the last snapshot that was learned from
	anew     bool   // the core has forgotten what the state file has
}

func newMind(t core.Tuning) *mind {
	return &mind{core: core.New(t), fitted: func(time.Duration) {}}
}

// with has f read or change the core, which it does not keep.
func (m *mind) with(f func(c *core.Core)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f(m.core)
}

// view copies what is known.
func (m *mind) view() (v core.View) {
	m.with(func(c *core.Core) { v = c.View() })
	return v
}

// post takes in a snapshot and answers it.
func (m *mind) post(s *core.Snapshot) (r core.Reply, stack string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.take(s)
}

// take is post with mu held. A fault of ours costs an answer, not the program: the
// limit in force stays.
func (m *mind) take(s *core.Snapshot) (r core.Reply, stack string) {
	defer func() {
		if fault := recover(); fault != nil {
			r = core.Hold(s, core.Failed, "internal_error", "the advisor failed, the limit stays")
			stack = fmt.Sprintf("%v\n%s", fault, debug.Stack())
		}
	}()
	start := time.Now()
	r = m.core.Take(s)
	if r.Result != core.Learned {
		return r, ""
	}
	m.fitted(time.Since(start))
	m.sequence++
	m.anew = m.anew || r.Anew
	if m.keep != nil {
		m.keep(state.Record{Sequence: m.sequence, Data: record(s)})
	}
	return r, ""
}

// image takes down everything known; the journal goes on behind it. It is called
// with mu held.
func (m *mind) image() (state.Image, error) {
	parts, err := m.core.Parts()
	image := state.Image{Sequence: m.sequence}
	for _, p := range parts {
		image.Parts = append(image.Parts, state.Part(p))
	}
	return image, err
}

// replay takes in what the journal holds.
func (m *mind) replay(records []state.Record) (taken, refused int) {
	for _, r := range records {
		s, err := readSnapshot(r.Data)
		if err == nil {
			err = m.core.Recall(&s)
		}
		if err != nil {
			refused++
			continue
		}
		m.sequence = r.Sequence
		taken++
	}
	return taken, refused
}
