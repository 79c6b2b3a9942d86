package serve

import (
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"weir/advisor/config"
	"weir/advisor/core"
	"weir/advisor/state"
	"weir/internal/program/metric"
)

const (
	saverPause = time.Second      // interval of checking what there is to do
	retryPause = 10 * time.Second // until a failed save is tried again
	// journalMax is the size of the journal, in bytes, at which a new checkpoint is written.
	// It bounds how long a start takes.
	journalMax = 4 << 20
)

// A saver saves the core's state in the background.
//
// Owned by its goroutine; the figures are atomic.
type saver struct {
	locked *lockedCore
	store  *state.Store
	every  time.Duration
	log    *slog.Logger

	saved   uint64    // sequence of the last checkpoint
	savedAt time.Time // by the machine's clock
	tried   time.Time
	written state.RecordCounts // of the journal, when the checkpoint was taken

	troubled         atomic.Bool // the disk accepts no writes, and that was logged
	writes, failures metric.Counter
	size             metric.Gauge // of the last checkpoint, in bytes
}

// openSaver restores m from the files at cfg.StateFile, logs what was found and starts
// the journal. The error says why the path cannot be used.
func openSaver(now time.Time, cfg *config.Config, m *lockedCore, log *slog.Logger) (*saver, error) {
	store, found, err := state.Open(now, cfg.StateFile)
	if err != nil {
		return nil, err
	}
	k := &saver{locked: m, store: store, every: cfg.StateEvery, log: log}
	for _, remark := range found.Remarks {
		log.Warn("State is damaged: " + remark)
	}
	if found.Checkpoint != nil {
		var partErrors []*core.PartError
		m.core, partErrors = core.Restore(tuningOf(cfg), found.Checkpoint.Parts)
		m.sequence = found.Checkpoint.Sequence
		if err := k.damaged(now, partErrors); err != nil {
			store.Close()
			return nil, err
		}
	}
	replayed, refused := m.replay(found.Records)
	if err := k.save(now); err != nil {
		if !state.IsDiskFull(err) {
			store.Close()
			return nil, err
		}
		k.trouble(err)
	}
	m.keep = store.Append
	if v := m.core.View(); !v.Newest.IsZero() {
		log.Info("Restored what was learned", "newest", v.Newest, "rounds", v.Rounds, "replayed", replayed, "refused",
			refused)
	}
	return k, nil
}

// damaged logs which parts of the checkpoint could not be read, and keeps a copy of it, since
// the next checkpoint lacks them.
func (s *saver) damaged(now time.Time, partErrors []*core.PartError) error {
	if len(partErrors) == 0 {
		return nil
	}
	aside, err := s.store.Archive(now, "corrupt")
	if err != nil {
		return err
	}
	for _, d := range partErrors {
		s.log.Warn(fmt.Sprintf("State is damaged: %v; all of it is kept as %s", d, aside))
	}
	return nil
}

// save writes the checkpoint.
func (s *saver) save(now time.Time) error {
	s.tried = now
	s.locked.mu.Lock()
	anew := s.locked.anew
	checkpoint, err := s.locked.checkpoint()
	if err == nil {
		s.locked.anew = false
	}
	s.locked.mu.Unlock()
	if anew && err == nil {
		s.setAside(now)
	}
	written := s.store.RecordCounts()
	if err == nil {
		err = s.store.Save(checkpoint)
	}
	if err != nil {
		s.failures.Inc()
		return err
	}
	s.writes.Inc()
	s.size.Set(float64(checkpoint.Size()))
	s.saved, s.savedAt, s.written = checkpoint.Sequence, now, written
	return nil
}

// setAside keeps the old checkpoint under another name, since another time has begun.
func (s *saver) setAside(now time.Time) {
	if aside, err := s.store.Archive(now, "before"); err != nil {
		s.log.Warn("The previous state could not be kept", "error", err)
	} else {
		s.log.Warn("The snapshots' times do not match what is known; starting from scratch, and keeping " +
			"the previous state as " + aside)
	}
}

// look writes the journal, saves when it is due, and logs once when the disk accepts no
// writes, and when it does again.
func (s *saver) look(now time.Time) {
	fault := s.store.Flush()
	if s.due(now, s.store.RecordCounts()) {
		fault = errors.Join(s.save(now), fault)
	} else if s.tried.After(s.savedAt) {
		return // the last attempt failed
	}
	if fault != nil {
		s.trouble(fault)
	} else if s.troubled.Swap(false) {
		s.log.Info("State can be written again")
	}
}

// trouble logs once that the disk accepts no writes.
func (s *saver) trouble(fault error) {
	if !s.troubled.Swap(true) {
		s.log.Warn("State cannot be written, will try again", "error", fault)
	}
}

// health returns the saver's health: DOWN while new knowledge would not survive a restart.
func (s *saver) health() any {
	status := "UP"
	if s.troubled.Load() {
		status = "DOWN"
	}
	return struct {
		Status string `json:"status"`
	}{status}
}

// due reports whether a checkpoint must be written.
func (s *saver) due(now time.Time, figures state.RecordCounts) bool {
	if s.tried.After(s.savedAt) {
		return now.Sub(s.tried) >= retryPause
	}
	s.locked.mu.Lock()
	fresh, anew := s.locked.sequence != s.saved, s.locked.anew
	s.locked.mu.Unlock()
	return anew || fresh && (now.Sub(s.savedAt) >= s.every || figures.Lost > s.written.Lost ||
		figures.JournalBytes-s.written.JournalBytes >= journalMax)
}

// close saves for the last time, after the last snapshot.
func (s *saver) close(now time.Time) {
	if err := s.save(now); err != nil {
		s.log.Warn("State cannot be written at shutdown; the journal has what was learned", "error", err)
	}
	s.store.Close()
}
