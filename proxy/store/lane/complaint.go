package lane

import (
	"sync"
	"time"
)

// A grumble lets a complaint that would come with every request through once a
// minute, with how many were kept back.
//
// Safe for concurrent use: mu guards.
type grumble struct {
	mu   sync.Mutex
	last time.Time
	kept int
}

func (g *grumble) due(now time.Time) (kept int, due bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.last.IsZero() && now.Sub(g.last) < time.Minute {
		g.kept++
		return 0, false
	}
	kept, g.kept, g.last = g.kept, 0, now
	return kept, true
}

// forget has the next complaint be told at once.
func (g *grumble) forget() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.last, g.kept = time.Time{}, 0
}

// undecidable notes that one call cannot be decided.
func (s *Store) undecidable(now time.Time, about string, err error) {
	if kept, due := s.grumble.due(now); due {
		s.cfg.Log.Warn(s.cfg.Title+" cannot decide about a key, its requests follow the failure mode", "counters", about, "reason", err, "more", kept)
	}
}

// complain tells once a minute that the store is misconfigured.
func (s *Store) complain(now time.Time, fault error) {
	if kept, due := s.complaint.due(now); due {
		s.cfg.Log.Error(s.cfg.Title+" is misconfigured, staying in "+modeText(s.cfg.Failure)+" mode", "reason", fault, "more", kept)
	}
}
