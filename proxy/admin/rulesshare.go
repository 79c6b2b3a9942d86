package admin

import (
	"context"
	"time"

	"weir/internal/every"
	"weir/internal/watch"
	"weir/proxy/store"
)

// Observe tells what the store holds now; version 0: nothing. It is as
// [Limits.Observe], and without effect with RULES_FILE.
func (r *Rules) Observe(now time.Time, doc store.Document) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ledger != nil {
		_ = r.ledger.settle(now, doc) // has warned
	}
}

// Sync observes by itself: it reads the document, and writes what could not be
// written while the store was away. When that is away, nothing happens.
func (r *Rules) Sync(now time.Time) {
	if r.ledger == nil {
		return
	}
	if doc, err := r.ledger.docs.Read(RulesName); err == nil {
		r.Observe(now, doc)
	}
}

// Share keeps the rules as the files and the store have them until ctx ends. Files
// are read again when they change; the store tells what other proxies write, and what
// could not be written there is tried again every pause.
func (r *Rules) Share(ctx context.Context, shared store.Store, pause time.Duration) {
	r.watchFiles(ctx)
	if r.ledger == nil {
		return
	}
	latest := make(chan store.Document, 1)
	shared.Watch(RulesName, func(doc store.Document) { // one call at a time
		select {
		case <-latest: // not the newest any more
		default:
		}
		latest <- doc
	})
	go r.observeAll(ctx, latest)
	go every.Pause(ctx.Done(), pause, r.syncPending)
}

// observeAll observes what the store's watcher tells. To make a set of rules may
// take a second, for which other documents must not wait.
func (r *Rules) observeAll(ctx context.Context, latest <-chan store.Document) {
	for {
		select {
		case <-ctx.Done():
			return
		case doc := <-latest:
			r.Observe(time.Now(), doc)
		}
	}
}

// syncPending writes what could not be written before.
func (r *Rules) syncPending(now time.Time) {
	r.mu.Lock()
	pending := r.ledger.pending()
	r.mu.Unlock()
	if pending {
		r.Sync(now)
	}
}

// watchFiles reads the files again when they change, until ctx ends.
func (r *Rules) watchFiles(ctx context.Context) {
	var names []string
	for _, name := range []string{r.files.Rules, r.files.Clients} {
		if name != "" {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return
	}
	w := watch.New(names...)
	go func() {
		r.refresh(time.Now()) // what has changed since the start
		w.Run(ctx, func() { r.refresh(time.Now()) })
	}()
}
