package admin

import (
	"context"
	"slices"
	"time"

	"weir/internal/watch"
	"weir/proxy/store"
)

// Share keeps the rules up to date with files and store until ctx ends. Files are read again when
// they change. The store reports the changes of other proxies; changes that could not be written
// are retried every pause.
func (r *Rules) Share(ctx context.Context, shared store.Store, pause time.Duration) {
	r.watchFiles(ctx)
	if r.docs != nil {
		r.document.Share(ctx, shared, pause)
	}
}

// watchFiles reads the files again when they change, until ctx ends.
func (r *Rules) watchFiles(ctx context.Context) {
	names := slices.DeleteFunc([]string{r.files.Rules, r.files.Clients}, func(name string) bool { return name == "" })
	if len(names) == 0 {
		return
	}
	w := watch.New(names...)
	go func() {
		r.refresh(time.Now()) // changes since the start
		w.Run(ctx, func() { r.refresh(time.Now()) })
	}()
}
