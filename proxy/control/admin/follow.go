package admin

import (
	"context"
	"time"

	"weir/proxy/store"
)

// Active returns what is in force.
func (d *document[T]) Active() *T { return d.active.Load() }

// Observe handles the current document of the store; version 0 means none. The store's
// watcher calls it; old or repeated observations are harmless. Together with Sync it
// brings all proxies to the latest change:
//
//   - a later change than the one known here is put in force;
//   - if the store has an earlier one or none (it was emptied, or was unavailable when
//     the change was made), the one known here is written, on top of what was
//     observed, so that of several proxies that do so one wins, and the others find
//     what they know;
//   - an unreadable document is left alone with one warning, and what is in
//     force stays. Only changes made by the API or the advisor replace it.
//
// The later UpdatedAt wins. That of a change is later than that of the change it
// replaces, whatever the clocks say. Versions would give the same order as long as the
// store loses nothing, but none if it does. The settings are not a change: they are never
// written, and everything overrides them. Returning to them by Delete is a change.
func (d *document[T]) Observe(now time.Time, doc store.Document) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.docs != nil {
		_ = d.settle(now, doc) // already logged
	}
}

// Sync reads the document, as the watcher does, and writes what could not be written
// while the store was unavailable. While the store is unavailable it does nothing.
func (d *document[T]) Sync(now time.Time) {
	if d.docs == nil {
		return
	}
	if doc, err := d.docs.Read(d.name); err == nil {
		d.Observe(now, doc)
	}
}

// syncPending writes changes that could not be written before.
func (d *document[T]) syncPending(now time.Time) {
	d.mu.Lock()
	pending := !d.looked || d.situation.in(situationsUnwritten)
	d.mu.Unlock()
	if pending {
		d.Sync(now)
	}
}

// Share synchronizes document and store until ctx ends. The store reports the changes of other
// proxies; changes that could not be written are retried every pause. Putting a change in force
// may take a second, and other documents must not wait for it.
func (d *document[T]) Share(ctx context.Context, shared store.Store, pause time.Duration) {
	latest := make(chan store.Document, 1)
	shared.Watch(d.name, func(doc store.Document) { // one call at a time
		select {
		case <-latest: // superseded
		default:
		}
		latest <- doc
	})
	go func() {
		tick := time.NewTicker(pause)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case doc := <-latest:
				d.Observe(time.Now(), doc)
			case now := <-tick.C:
				d.syncPending(now)
			}
		}
	}()
}
