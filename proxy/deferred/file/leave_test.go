package file

import (
	"context"
	"errors"
	"testing"
	"time"

	"weir/proxy/deferred"
	"weir/proxy/deferred/deferredtest"
)

// An edit whose caller does not wait any more is written all the same, and shares nothing with
// the caller.
func TestEditorLeaves(t *testing.T) {
	t.Parallel()
	ctx, leave := context.WithCancel(t.Context())
	cfg := Config{Path: queuePath(t)}
	slow := make(chan struct{}, 1)
	cfg.hooks.committing = func() error {
		select {
		case <-slow:
			leave()
		default:
		}
		return nil
	}
	q := opened(t, cfg)
	e := order("shop", nil)
	deferredtest.PutAccepted(t, q, e)
	slow <- struct{}{}
	stored := make(chan deferred.PutResult, 1)
	q.Put(time.Now(), &deferred.PutRequest{Entry: order("other", nil), Done: func(s deferred.PutResult) { stored <- s }})
	for range 2 {
		if _, err := q.Edit(ctx, time.Now(), deferred.Edit{Action: deferred.Cancel, ID: e.ID}); err != nil &&
			!errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if _, err := q.Edit(ctx, time.Now(), deferred.Edit{Action: deferred.Drop, Rule: "orders",
			State: deferred.Cancelled}); err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
	<-stored
}
