package lane

import (
	"context"
	"time"

	"weir/internal/every"
	"weir/proxy/store"
)

const (
	// pollPause is how often documents and edits are looked at: a change is to be
	// in force everywhere within a second.
	pollPause = 250 * time.Millisecond
	// looksMissedMax is how many looks at documents in a row may fail until the log says
	// so: when the store is unavailable the breaker reports it first.
	looksMissedMax = 12
)

// Watch is as in [store.Store]. A document that was lost has version 0. (Over a slow
// link a change takes as long as its transfer.) changed is not called while the store is
// unavailable.
func (s *Store) Watch(name string, changed func(store.Document)) {
	s.mu.Lock()
	s.watched = append(s.watched, &watched{name: name, changed: changed})
	s.mu.Unlock()
	s.look()
}

// watched is a document that somebody wants to know of.
//
// Owned by the goroutine of keepReading.
type watched struct {
	name    string
	changed func(store.Document)
	told    bool
	last    string // its mark then
}

// look has the watcher look at documents at once.
func (s *Store) look() {
	select {
	case s.poll <- struct{}{}:
	default:
	}
}

// keepReading looks at the watched documents again and again.
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
		case s.breaker.away.Load(), s.stopping.Err() != nil:
			continue // the breaker has reported it
		case err != nil:
			missed++
			if missed == looksMissedMax {
				s.cfg.Log.Warn("Documents cannot be read, decisions are not affected", "reason", err)
			}
			continue
		case missed >= looksMissedMax:
			s.cfg.Log.Info("Documents can be read again")
		}
		missed = 0
	}
}

// lookNow looks at everything that is watched once, and tells what has changed. A
// document that changes between its mark and its body is told again at the next look.
func (s *Store) lookNow() error {
	s.mu.Lock()
	all := s.watched
	s.mu.Unlock()
	if len(all) == 0 || s.breaker.away.Load() {
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
		if w.told && w.last == marks[i] {
			continue
		}
		doc, err := s.Read(w.name)
		if err != nil {
			return err
		}
		w.told, w.last = true, marks[i]
		w.changed(doc)
	}
	return nil
}

// keepCounting looks at the count of edits again and again, the way that decisions go: so
// an idle proxy notices, too, that the store is away.
func (s *Store) keepCounting() {
	var edits string
	every.Pause(s.stopping.Done(), pollPause, func(time.Time) {
		var count string
		err := s.exchange(func(ctx context.Context) (err error) {
			count, err = s.backend.Edits(ctx)
			return err
		})
		if err == nil && count != edits {
			edits = count
			s.Forgetful()
		}
	})
}
