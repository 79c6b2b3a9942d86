package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"weir/advisor/state"
	"weir/internal/metric"
)

const (
	// keeperPause is between two looks at what there is to do.
	keeperPause = time.Second
	// retryPause is until a state that could not be saved is tried again.
	retryPause = 10 * time.Second
	// journalMax is how many bytes of journal make a new image due: it bounds how
	// long a start takes.
	journalMax = 4 << 20
	// parkedPrefix begins the names of the parts of what is set aside.
	parkedPrefix = "parked."
)

// A keeper writes down what the core knows, in the background.
//
// Owned by its goroutine; the figures are atomic.
type keeper struct {
	core  *core
	store *state.Store
	every time.Duration
	log   *slog.Logger

	saved    uint64    // sequence of the last image
	savedAt  time.Time // by the machine's clock
	tried    time.Time
	written  state.Figures // of the journal, when the image was taken
	troubled bool          // somebody was told

	writes, failures metric.Counter
	size             metric.Gauge // of the last image, in bytes
}

// openKeeper restores c from the files at path, says what was found and starts to
// journal. The error says why the path cannot be used.
func openKeeper(now time.Time, path string, every time.Duration, c *core, log *slog.Logger) (*keeper, error) {
	store, found, err := state.Open(now, path)
	if err != nil {
		return nil, err
	}
	k := &keeper{core: c, store: store, every: every, log: log}
	for _, remark := range found.Remarks {
		log.Warn("State is damaged: " + remark)
	}
	if found.Image != nil {
		if err := k.restored(now, c.restore(found.Image)); err != nil {
			store.Close()
			return nil, err
		}
	}
	replayed, refused := c.replay(found.Records)
	if err := k.save(now); err != nil {
		store.Close()
		return nil, err
	}
	c.keep = store.Append
	if newest := c.now.newest(); !newest.IsZero() {
		log.Info("Restored what was learned", "newest", newest.UTC(), "rounds", c.now.rounds, "replayed", replayed, "refused", refused)
	}
	return k, nil
}

// restored tells what of the image could not be read, and keeps the image aside then:
// the next one has not got it.
func (k *keeper) restored(now time.Time, damages []damage) error {
	if len(damages) == 0 {
		return nil
	}
	aside, err := k.store.SetAside(now)
	if err != nil {
		return err
	}
	for i := range damages {
		k.log.Warn(fmt.Sprintf("State is damaged: %s; all of it is kept as %s", &damages[i], aside))
	}
	return nil
}

// restore makes an image what is known, as far as it can be read.
func (c *core) restore(image *state.Image) []damage {
	m, damages := remember(c.tuning, image)
	c.now, c.sequence = m, image.Sequence
	parked := &state.Image{}
	for _, p := range image.Parts {
		if name, ok := strings.CutPrefix(p.Name, parkedPrefix); ok {
			parked.Parts = append(parked.Parts, state.Part{Name: name, Data: p.Data})
		}
	}
	if len(parked.Parts) == 0 {
		return damages
	}
	other, lost := remember(c.tuning, parked)
	for _, d := range lost {
		damages = append(damages, damage{parkedPrefix + d.part, d.err, d.instead})
	}
	if parts, err := other.parts(c.tuning); err == nil && !other.newest().IsZero() {
		c.parked, c.parkedTo = &state.Image{Parts: parts}, other.newest()
	}
	return damages
}

// replay takes in what the journal holds. Of the refits that were due meanwhile the
// last is carried out, at the end.
func (c *core) replay(records []state.Record) (taken, refused int) {
	c.replays = true
	for _, r := range records {
		s, err := readSnapshot(r.Data)
		if err != nil {
			refused++
			continue
		}
		c.take(&s)
		c.sequence = r.Sequence
		taken++
	}
	c.replays = false
	if c.last != nil {
		if model, err := c.last.Run(); err == nil {
			c.now.future.Adopt(model)
		}
		c.last = nil
	}
	return taken, refused
}

// image takes down everything known; the journal goes on behind it. It is called
// with mu held.
func (c *core) image() (state.Image, error) {
	parts, err := c.now.parts(c.tuning)
	if err != nil {
		return state.Image{}, err
	}
	if c.parked != nil {
		for _, p := range c.parked.Parts {
			parts = append(parts, state.Part{Name: parkedPrefix + p.Name, Data: p.Data})
		}
	}
	return state.Image{Sequence: c.sequence, Parts: parts}, nil
}

// save writes the image.
func (k *keeper) save(now time.Time) error {
	k.tried = now
	k.core.mu.Lock()
	image, err := k.core.image()
	if err == nil {
		k.store.Rotate(image.Sequence)
	}
	k.core.mu.Unlock()
	written, _ := k.store.Figures()
	if err == nil {
		err = k.store.Save(image)
	}
	if err != nil {
		k.failures.Inc()
		return err
	}
	k.writes.Inc()
	k.size.Set(float64(image.Size()))
	k.saved, k.savedAt, k.written = image.Sequence, now, written
	return nil
}

// run saves when it is due, until ctx ends.
func (k *keeper) run(ctx context.Context) {
	tick := time.NewTicker(keeperPause)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			k.look(now)
		}
	}
}

// look saves when it is due, and tells when the disk takes nothing, once, and when
// it does again.
func (k *keeper) look(now time.Time) {
	figures, fault := k.store.Figures()
	if k.due(now, figures) {
		fault = errors.Join(k.save(now), fault)
	} else if k.tried.After(k.savedAt) {
		return // the last attempt failed
	}
	switch {
	case fault != nil && !k.troubled:
		k.log.Warn("State cannot be written, going on without and trying again", "error", fault)
	case fault == nil && k.troubled:
		k.log.Info("State is written again")
	}
	k.troubled = fault != nil
}

// due says whether an image is to be taken.
func (k *keeper) due(now time.Time, figures state.Figures) bool {
	if k.tried.After(k.savedAt) {
		return now.Sub(k.tried) >= retryPause
	}
	k.core.mu.Lock()
	fresh := k.core.sequence != k.saved
	k.core.mu.Unlock()
	return fresh && (now.Sub(k.savedAt) >= k.every || figures.Lost > k.written.Lost || figures.JournalBytes-k.written.JournalBytes >= journalMax)
}

// close saves for the last time, when no more snapshots come.
func (k *keeper) close(now time.Time) {
	if err := k.save(now); err != nil {
		k.log.Warn("State cannot be written at the end; the journal has what was learned", "error", err)
	}
	k.store.Close()
}
