package admin

import (
	"context"
	"time"

	"weir/proxy/store"
)

// Active is what is in force now.
func (d *document[T]) Active() *T { return d.active.Load() }

// Observe handles what the store holds now; version 0: nothing. It is for the
// store's watcher; an old or repeated observation does no harm.
// Together with Sync it brings all proxies to the latest change:
//
//   - a later change than the one known here is put in force;
//   - if the store has an earlier one or none (it was emptied, or was unavailable when
//     the change was made), the one known here is written, on top of what was
//     observed, so that of several proxies that do so one wins, and the others find
//     what they know;
//   - what cannot be understood is left alone with one warning, and what is in
//     force stays. Only changes made by the API or the advisor take its place.
//
// The later UpdatedAt wins, and that of a change is later than that of the change which
// it replaces, whatever the clocks. Versions would say the same as long as the store
// loses nothing, and nothing when it does. The settings are no change: nobody writes
// them, and everything overrides them. Going back to them by Delete is one.
func (d *document[T]) Observe(now time.Time, doc store.Document) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.docs != nil {
		_ = d.settle(now, doc) // has warned
	}
}

// Sync observes by itself: it reads the document, and writes what could not be written
// while the store was unavailable. While it is, nothing happens.
func (d *document[T]) Sync(now time.Time) {
	if d.docs == nil {
		return
	}
	if doc, err := d.docs.Read(d.name); err == nil {
		d.Observe(now, doc)
	}
}

// syncPending writes what could not be written before.
func (d *document[T]) syncPending(now time.Time) {
	d.mu.Lock()
	pending := d.pending()
	d.mu.Unlock()
	if pending {
		d.Sync(now)
	}
}

// follow has the document and the store follow each other until ctx ends: what others
// write is told by the store, what could not be written is tried again every pause. To put
// a change in force may take a second, for which other documents must not wait.
func (d *document[T]) follow(ctx context.Context, shared store.Store, pause time.Duration) {
	latest := make(chan store.Document, 1)
	shared.Watch(d.name, func(doc store.Document) { // one call at a time
		select {
		case <-latest: // not the newest any more
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
