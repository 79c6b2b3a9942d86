package serve

import (
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"weir/advisor/core"
	"weir/advisor/season"
	"weir/advisor/state"
)

const (
	// refitWait is how long a snapshot waits for a refit that is overdue.
	refitWait = 3 * time.Millisecond
	// refitMax is how long a refit may take; what comes later is thrown away.
	refitMax = 5 * time.Second
)

// A mind is the core for all goroutines, with the refits that go on beside it.
//
// Safe for concurrent use: mu guards the fields below it; nothing is waited for and
// no more than about 100 µs is computed while it is held, but when an image is taken.
type mind struct {
	keep   func(state.Record)                  // in the journal; nil: there is none
	fitted func(took time.Duration, err error) // told after a refit, without mu
	refits sync.WaitGroup

	mu       sync.Mutex
	core     *core.Core
	sequence uint64        // of the last snapshot that was learned from
	fits     chan struct{} // closed when the refit that runs has ended
	anew     bool          // the core has forgotten what the state file has
}

func newMind(t core.Tuning) *mind {
	return &mind{core: core.New(t), fitted: func(time.Duration, error) {}}
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

// post takes in a snapshot and answers it. A replay waits a little for a refit that it
// has overtaken, so that it is not forecast for hours with what was fitted long ago.
func (m *mind) post(s *core.Snapshot) (r core.Reply, stack string) {
	m.mu.Lock()
	if m.core.Overtaken(s) {
		fits := m.fits
		m.mu.Unlock()
		patience := time.NewTimer(refitWait)
		select {
		case <-fits:
		case <-patience.C:
		}
		patience.Stop()
		m.mu.Lock()
	}
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
	r = m.core.Take(s)
	if r.Result != core.Learned {
		return r, ""
	}
	m.sequence++
	m.anew = m.anew || r.Anew
	if m.keep != nil {
		m.keep(state.Record{Sequence: m.sequence, Data: record(s)})
	}
	if refit := m.core.Refit(); refit != nil {
		fits := make(chan struct{})
		m.fits = fits
		m.refits.Go(func() {
			defer close(fits)
			m.fit(refit, refit.Run)
		})
	}
	return r, ""
}

var errSlow = fmt.Errorf("the refit took longer than %s", refitMax)

// fit carries a refit out, away from mu, and has the core adopt what it found.
func (m *mind) fit(refit *core.Refit, run func() (*season.Model, error)) {
	start := time.Now()
	var model *season.Model
	err := protect(func() (err error) { model, err = run(); return err })
	took := time.Since(start)
	if took > refitMax {
		err = errors.Join(err, errSlow)
	}
	if err != nil {
		model = nil
	}
	m.mu.Lock()
	err = errors.Join(err, protect(func() error { m.core.Adopt(refit, model); return nil }))
	m.mu.Unlock()
	m.fitted(took, err)
}

// protect turns a panic into an error.
func protect(f func() error) (err error) {
	defer func() {
		if fault := recover(); fault != nil {
			err = fmt.Errorf("the refit failed: %v", fault)
		}
	}()
	return f()
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

// replay takes in what the journal holds. Of the refits that were due meanwhile the
// last is carried out, at the end.
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
	if refit := m.core.Refit(); refit != nil {
		m.fit(refit, refit.Run)
	}
	return taken, refused
}
