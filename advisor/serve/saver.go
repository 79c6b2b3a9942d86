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

// openKeeper restores m from the files at cfg.StateFile, logs what was found and starts
// the journal. The error says why the path cannot be used.
func openKeeper(now time.Time, cfg *config.Config, m *lockedCore, log *slog.Logger) (*saver, error) {
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
func (k *saver) damaged(now time.Time, partErrors []*core.PartError) error {
	if len(partErrors) == 0 {
		return nil
	}
	aside, err := k.store.Archive(now, "corrupt")
	if err != nil {
		return err
	}
	for _, d := range partErrors {
		k.log.Warn(fmt.Sprintf("State is damaged: %v; all of it is kept as %s", d, aside))
	}
	return nil
}

// save writes the checkpoint.
func (k *saver) save(now time.Time) error {
	k.tried = now
	k.locked.mu.Lock()
	anew := k.locked.anew
	checkpoint, err := k.locked.checkpoint()
	if err == nil {
		k.locked.anew = false
	}
	k.locked.mu.Unlock()
	if anew && err == nil {
		k.setAside(now)
	}
	written := k.store.RecordCounts()
	if err == nil {
		err = k.store.Save(checkpoint)
	}
	if err != nil {
		k.failures.Inc()
		return err
	}
	k.writes.Inc()
	k.size.Set(float64(checkpoint.Size()))
	k.saved, k.savedAt, k.written = checkpoint.Sequence, now, written
	return nil
}

// setAside keeps the old checkpoint under another name, since another time has begun.
func (k *saver) setAside(now time.Time) {
	if aside, err := k.store.Archive(now, "before"); err != nil {
		k.log.Warn("The previous state could not be kept", "error", err)
	} else {
		k.log.Warn("The snapshots' times do not match what is known; starting from scratch, and keeping " +
			"the previous state as " + aside)
	}
}

// look writes the journal, saves when it is due, and logs once when the disk accepts no
// writes, and when it does again.
func (k *saver) look(now time.Time) {
	fault := k.store.Flush()
	if k.due(now, k.store.RecordCounts()) {
		fault = errors.Join(k.save(now), fault)
	} else if k.tried.After(k.savedAt) {
		return // the last attempt failed
	}
	if fault != nil {
		k.trouble(fault)
	} else if k.troubled.Swap(false) {
		k.log.Info("State can be written again")
	}
}

// trouble logs once that the disk accepts no writes.
func (k *saver) trouble(fault error) {
	if !k.troubled.Swap(true) {
		k.log.Warn("State cannot be written, will try again", "error", fault)
	}
}

// health returns the keeper's health: DOWN while new knowledge would not survive a restart.
func (k *saver) health() any {
	status := "UP"
	if k.troubled.Load() {
		status = "DOWN"
	}
	return struct {
		Status string `json:"status"`
	}{status}
}

// due reports whether a checkpoint must be written.
func (k *saver) due(now time.Time, figures state.RecordCounts) bool {
	if k.tried.After(k.savedAt) {
		return now.Sub(k.tried) >= retryPause
	}
	k.locked.mu.Lock()
	fresh, anew := k.locked.sequence != k.saved, k.locked.anew
	k.locked.mu.Unlock()
	return anew || fresh && (now.Sub(k.savedAt) >= k.every || figures.Lost > k.written.Lost ||
		figures.JournalBytes-k.written.JournalBytes >= journalMax)
}

// close saves for the last time, after the last snapshot.
func (k *saver) close(now time.Time) {
	if err := k.save(now); err != nil {
		k.log.Warn("State cannot be written at shutdown; the journal has what was learned", "error", err)
	}
	k.store.Close()
}
