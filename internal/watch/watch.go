package watch

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/fsnotify/fsnotify"
)

const (
	// quiet is how long nothing may have happened before the files are looked at: who
	// writes in several steps is likely to be done.
	quiet = 20 * time.Millisecond
	// patience is how long a folder in which things happen all the time is waited
	// for.
	patience = 200 * time.Millisecond
	// pause is between two looks without a notice. With two a second a change is reported
	// within a second also where there are no notices.
	pause = 500 * time.Millisecond
)

// A Watcher watches files that need not exist.
//
// Owned by the goroutine of Run.
type Watcher struct {
	files   []*file
	folders map[string]fs.FileInfo // what the kernel was asked about; nil: not there
	notices *fsnotify.Watcher      // nil: there are none on this system
	pause   time.Duration
}

// New returns a watcher that knows what the files hold now: what was read before
// may be older, so read them after.
func New(names ...string) *Watcher {
	w := &Watcher{folders: make(map[string]fs.FileInfo), pause: pause}
	var err error
	if w.notices, err = fsnotify.NewWatcher(); err != nil {
		w.notices = nil // out of inotify instances: looking has to do
	}
	for _, name := range names {
		if abs, err := filepath.Abs(name); err == nil {
			name = abs // whatever becomes of the working folder
		}
		w.files = append(w.files, &file{name: name})
		w.folders[filepath.Dir(name)] = nil
		if stat, err := os.Stat(name); err == nil && stat.IsDir() {
			w.folders[name] = nil
		}
	}
	w.ask()
	w.look(true)
	return w
}

// Run calls changed after the content of one or more files has changed, or one has
// gone or come, until ctx ends; then the watcher cannot be used again. Changes that
// come together are reported together, and while changed runs, none is reported and none
// is lost.
func (w *Watcher) Run(ctx context.Context, changed func()) {
	var events chan fsnotify.Event
	var errs chan error
	if w.notices != nil {
		defer w.notices.Close()
		events, errs = w.notices.Events, w.notices.Errors
	}
	tick := time.NewTicker(w.pause)
	defer tick.Stop()
	var settle <-chan time.Time // when something has happened
	var first time.Time         // when it began
	about := false              // whether it was about a file of ours, not only about its folder
	for {
		closely := false
		select {
		case <-ctx.Done():
			return
		case event, ok := <-events:
			if !ok {
				events = nil
				continue
			}
			about = about || w.knows(event.Name)
			if settle == nil {
				first = time.Now()
			}
			if time.Since(first) < patience {
				settle = time.After(quiet)
			}
			continue
		case _, ok := <-errs: // notices were lost, as too many came
			if !ok {
				errs = nil
				continue
			}
			closely = true
		case <-settle:
			closely, about, settle = about, false, nil
		case <-tick.C:
			w.ask()
		}
		if w.look(closely) {
			changed()
		}
	}
}

// knows reports whether one of the files has that name.
func (w *Watcher) knows(name string) bool {
	return slices.ContainsFunc(w.files, func(f *file) bool { return f.name == name })
}

// ask asks the kernel about folders that are new, or others than before: a folder
// may come after its file's name was known, or be swapped for another.
func (w *Watcher) ask() {
	if w.notices == nil {
		return
	}
	for name, before := range w.folders {
		now, err := os.Stat(name)
		if err != nil {
			w.folders[name] = nil
			continue
		}
		if before != nil && os.SameFile(before, now) && slices.Contains(w.notices.WatchList(), name) {
			continue
		}
		_ = w.notices.Remove(name) // most often it was not there
		if w.notices.Add(name) == nil {
			w.folders[name] = now
		}
	}
}

// look looks at all files, and reports whether one has another content.
func (w *Watcher) look(closely bool) (changed bool) {
	now := time.Now()
	for _, f := range w.files {
		if f.look(now, closely) {
			changed = true
		}
	}
	return changed
}
