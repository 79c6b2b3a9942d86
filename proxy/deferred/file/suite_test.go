package file

import (
	"errors"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"weir/proxy/deferred"
	"weir/proxy/deferred/deferredtest"
)

// TestQueue plays what every queue promises.
func TestQueue(t *testing.T) {
	t.Parallel()
	deferredtest.Run(t, func(t *testing.T, key []byte) deferredtest.Place {
		return &folder{path: filepath.Join(t.TempDir(), "queue"), key: key}
	})
}

// A folder has a file.
type folder struct {
	path    string
	key     []byte
	crashed *atomic.Bool
}

// Open is part of deferredtest.Place.
func (p *folder) Open(t testing.TB, clock func() time.Time, limits deferred.Limits) deferred.Queue {
	t.Helper()
	crashed := &atomic.Bool{}
	p.crashed = crashed
	q, err := Open(clock(), Config{Path: p.path, Limits: limits, Key: p.key, hooks: hooks{committing: func() error {
		if crashed.Load() {
			return errors.New("crashed")
		}
		return nil
	}}})
	if err != nil {
		t.Fatal(err)
	}
	return q
}

// Crash is part of deferredtest.Place.
func (p *folder) Crash(t testing.TB, q deferred.Queue) {
	t.Helper()
	p.crashed.Store(true)
	if err := q.Close(); err != nil {
		t.Fatal(err)
	}
}

// Reopens is part of deferredtest.Place.
func (p *folder) Reopens() bool { return true }
