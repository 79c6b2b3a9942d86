package watch

import (
	"context"
	"path/filepath"
	"time"
)

const (
	// pause is the time between two checks. A change is reported after one or two of them.
	pause = 250 * time.Millisecond
	// unsettledMax is the number of consecutive checks that find a change until it is
	// reported although the files may still be being written.
	unsettledMax = 4
)

// A Watcher watches files that need not exist.
//
// Owned by the goroutine of Run.
type Watcher struct {
	files     []*file
	pause     time.Duration
	unsettled int // consecutive checks that have found a change, not reported yet
}

// New returns a Watcher that reports changes from now on. Read the files after New, so that
// no change is missed.
func New(names ...string) *Watcher {
	w := &Watcher{pause: pause}
	for _, name := range names {
		if abs, err := filepath.Abs(name); err == nil {
			name = abs // the working folder may change
		}
		f := &file{name: name}
		f.look(time.Now())
		w.files = append(w.files, f)
	}
	return w
}

// Run calls changed after files have changed, appeared or disappeared, until ctx ends.
// Changes close together are reported together, also if they cancel each other out. Changes
// while changed runs are reported after it returns.
func (w *Watcher) Run(ctx context.Context, changed func()) {
	for {
		// A ticker would let a check follow a slow one at once, so that a file that is
		// being written would seem to be complete.
		select {
		case <-ctx.Done():
			return
		case <-time.After(w.pause):
		}
		if w.look(time.Now()) {
			changed()
		}
	}
}

// look checks all files, and reports whether one of them has changed since the last report
// and is not being written.
func (w *Watcher) look(now time.Time) (changed bool) {
	moved := false
	for _, f := range w.files {
		moved = f.look(now) || moved
	}
	if moved {
		w.unsettled++
	}
	if changed = w.unsettled == unsettledMax || w.unsettled > 0 && !moved; changed {
		w.unsettled = 0
	}
	return changed
}
