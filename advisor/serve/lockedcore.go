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
func (l *lockedCore) with(f func(c *core.Core)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f(l.core)
}

// view returns a copy of the state.
func (l *lockedCore) view() (v core.View) {
	l.with(func(c *core.Core) { v = c.View() })
	return v
}

// post processes a snapshot and answers it. If that panics, the answer is that the limit in force
// stays, and the program continues.
func (l *lockedCore) post(s *core.Snapshot) (r core.Response, stack string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer func() {
		if fault := recover(); fault != nil {
			r = core.KeepLimit(s, core.Failed, "internal_error", "the advisor failed, the limit stays")
			stack = fmt.Sprintf("%v\n%s", fault, debug.Stack())
		}
	}()
	start := time.Now()
	r = l.core.HandleSnapshot(s)
	if r.Result != core.Learned {
		return r, ""
	}
	l.fits.Observe(time.Since(start))
	l.sequence++
	l.anew = l.anew || r.Restarted
	if l.keep != nil {
		l.keep(state.Record{Sequence: l.sequence, Data: record(s)})
	}
	return r, ""
}

// checkpoint encodes the state; the journal continues after it. The caller holds mu.
func (l *lockedCore) checkpoint() (state.Checkpoint, error) {
	parts, err := l.core.Parts()
	return state.Checkpoint{Sequence: l.sequence, Parts: parts}, err
}

// replay processes the records of the journal.
func (l *lockedCore) replay(records []state.Record) (taken, refused int) {
	for _, r := range records {
		s, err := readSnapshot(r.Data)
		if err == nil {
			err = l.core.Replay(&s)
		}
		if err != nil {
			refused++
			continue
		}
		l.sequence = r.Sequence
		taken++
	}
	return taken, refused
}
