package lane

import (
	"time"

	"weir/internal/program/journal"
	"weir/internal/timing/every"
	"weir/proxy/store"
)

const (
	// pollPause is the interval in which documents and edits are polled: a change must be in
	// force everywhere within a second.
	pollPause = 250 * time.Millisecond
	// looksMissedMax is the number of failed polls in a row from which they are logged: if
	// the store is unavailable, the breaker reports that first.
	looksMissedMax = 12
)

// Watch implements [store.Store]. A lost document has version 0. Over a slow link a change takes
// as long as its transfer. changed is not called while the store is unavailable.
func (s *Store) Watch(name string, changed func(store.Document)) {
	s.mu.Lock()
	s.watched = append(s.watched, &watched{name: name, changed: changed})
	s.mu.Unlock()
	s.look()
}

// watched is a watched document.
//
// Owned by the goroutine of keepReading.
type watched struct {
	name     string
	changed  func(store.Document)
	reported bool
	last     string // the mark that was reported
}

// look makes the watcher poll documents now.
func (s *Store) look() { every.Notify(s.poll) }

// keepReading polls the watched documents.
func (s *Store) keepReading() {
	tick := time.NewTicker(pollPause)
	defer tick.Stop()
	missed := 0
	for {
		select {
		case <-s.stopping.Done():
			return
		case <-tick.C:
		case <-s.poll:
		}
		err := s.lookNow()
		switch {
		case s.breaker.isOpen.Load(), s.stopping.Err() != nil:
			continue // the breaker has reported it
		case err != nil:
			missed++
			if missed == looksMissedMax {
				s.cfg.Log.Warn("Documents cannot be read, decisions are not affected", "reason", err)
			}
			continue
		case missed >= looksMissedMax:
			journal.LogRecovery(s.cfg.Log, "Documents can be read again")
		}
		missed = 0
	}
}

// lookNow polls all watched documents once, and reports changes. A document that changes
// between reading its mark and its body is reported again next time.
func (s *Store) lookNow() error {
	s.mu.Lock()
	all := s.watched
	s.mu.Unlock()
	if len(all) == 0 || s.breaker.isOpen.Load() {
		return nil
	}
	names := make([]string, len(all))
	for i, w := range all {
		names[i] = w.name
	}
	marks, err := s.backend.Marks(s.stopping, names)
	if err != nil {
		s.counts.documentErrors.Inc()
		return err
	}
	for i, w := range all {
		if w.reported && w.last == marks[i] {
			continue
		}
		doc, err := s.Read(w.name)
		if err != nil {
			return err
		}
		w.reported, w.last = true, marks[i]
		w.changed(doc)
	}
	return nil
}

// keepCounting polls the count of edits, over the connection of the decisions, so that an idle
// proxy notices too that the store is unavailable. edits is the count at the start, or "".
func (s *Store) keepCounting(edits string) {
	every.Interval(s.stopping.Done(), pollPause, func(time.Time) {
		count, err := exchange(s, "read the count of edits", s.backend.Edits)
		if err == nil && count != edits {
			edits = count
			s.ForgetRefusals()
		}
	})
}
