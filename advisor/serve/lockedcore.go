package serve

import (
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"weir/advisor/core"
	"weir/advisor/state"
	"weir/internal/program/metric"
)

// A lockedCore is the core with a lock.
//
// Safe for concurrent use: mu guards the fields below it. While it is held nothing
// blocks, and at most about 100 µs are computed, except for taking a checkpoint.
type lockedCore struct {
	keep func(state.Record) // appends to the journal; nil: none
	fits *metric.Histogram  // of the time that learning from a snapshot takes

	mu       sync.Mutex
	core     *core.Core
	sequence uint64 // of the last snapshot that was learned from
	anew     bool   // the core has dropped what the state file has
}

func newLockedCore(t core.Settings) *lockedCore {
	return &lockedCore{core: core.New(t), fits: metric.NewHistogram(metric.LatencyBuckets())}
}

// with calls f to read or change the core, with the lock held. f must not keep the core.
func (m *lockedCore) with(f func(c *core.Core)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f(m.core)
}

// view returns a copy of the state.
func (m *lockedCore) view() (v core.View) {
	m.with(func(c *core.Core) { v = c.View() })
	return v
}

// post processes a snapshot and answers it. If that panics, the answer is that the limit in force
// stays, and the program continues.
func (m *lockedCore) post(s *core.Snapshot) (r core.Response, stack string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	defer func() {
		if fault := recover(); fault != nil {
			r = core.KeepLimit(s, core.Failed, "internal_error", "the advisor failed, the limit stays")
			stack = fmt.Sprintf("%v\n%s", fault, debug.Stack())
		}
	}()
	start := time.Now()
	r = m.core.HandleSnapshot(s)
	if r.Result != core.Learned {
		return r, ""
	}
	m.fits.Observe(time.Since(start))
	m.sequence++
	m.anew = m.anew || r.Restarted
	if m.keep != nil {
		m.keep(state.Record{Sequence: m.sequence, Data: record(s)})
	}
	return r, ""
}

// checkpoint encodes the state; the journal continues after it. The caller holds mu.
func (m *lockedCore) checkpoint() (state.Checkpoint, error) {
	parts, err := m.core.Parts()
	return state.Checkpoint{Sequence: m.sequence, Parts: parts}, err
}

// replay processes the records of the journal.
func (m *lockedCore) replay(records []state.Record) (taken, refused int) {
	for _, r := range records {
		s, err := readSnapshot(r.Data)
		if err == nil {
			err = m.core.Replay(&s)
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
