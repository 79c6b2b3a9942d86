package file

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"weir/internal/test/testkit"
	"weir/proxy/deferred"
	"weir/proxy/deferred/deferredtest"
)

// TestQueue plays what every queue promises.
func TestQueue(t *testing.T) {
	t.Parallel()
	deferredtest.Run(t, func(t *testing.T, key []byte) deferredtest.Storage {
		return &folder{path: filepath.Join(t.TempDir(), "queue"), key: key}
	})
}

// A folder has a file.
type folder struct {
	path    string
	key     []byte
	crashed *atomic.Bool
}

// Open is part of deferredtest.Storage.
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

// Crash is part of deferredtest.Storage.
func (p *folder) Crash(t testing.TB, q deferred.Queue) {
	t.Helper()
	p.crashed.Store(true)
	if err := q.Close(); err != nil {
		t.Fatal(err)
	}
}

// Reopens is part of deferredtest.Storage.
func (p *folder) Reopens() bool { return true }

// TestMain makes the test binary a program that uses a queue, in a process of its own.
func TestMain(m *testing.M) {
	testkit.Main(m, func() {
		programs := map[string]func(path string) error{"load": load, "trace": trace, "full": full}
		if err := programs[os.Args[1]](os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	})
}

// queuePath is where a test keeps its queue.
func queuePath(t *testing.T) string { return filepath.Join(t.TempDir(), "queue") }

// opened opens a queue until the test ends.
func opened(t *testing.T, cfg Config) *Queue {
	t.Helper()
	cfg.Limits = deferredtest.LargeLimits
	q := testkit.Must(Open(time.Now(), cfg))(t)
	t.Cleanup(func() { _ = q.Close() })
	return q
}

// order returns a new entry.
func order(line string, body []byte) deferred.Entry {
	e := deferredtest.NewEntry(line)
	e.Body = body
	return e
}

// orders returns n entries, each in a line of its own, half of them with a key.
func orders(n int) (entries []deferred.Entry) {
	for i := range n {
		e := order(fmt.Sprint("shop ", i), fmt.Appendf(nil, "order %d", i))
		if i%2 == 0 {
			e = deferredtest.WithKey(e)
		}
		entries = append(entries, e)
	}
	return entries
}
