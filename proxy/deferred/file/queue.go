package file

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"go.etcd.io/bbolt"

	"weir/proxy/deferred"
	"weir/proxy/deferred/seal"
)

// Durability is what an accepted entry survives.
const Durability = "fsync"

// Config says where the file is and what it may hold.
type Config struct {
	Path   string
	Limits deferred.Limits
	Key    []byte       // 32 bytes, with which entries are encrypted; empty: they are not
	Log    *slog.Logger // nil: none

	hooks hooks // of tests
}

// hooks let tests see what happens.
type hooks struct {
	committing func() error // before each commit; an error has it fail
	committed  func() error // after each commit; an error has it seem to fail
	retry      time.Duration
}

// A Queue is a deferred.Queue in a file.
//
// Safe for concurrent use: mu guards what the writer is given, state what entries there are.
// The writer takes state while it works out a group, not while it waits for the disk.
type Queue struct {
	cfg  Config
	now  time.Time // when it was opened, the last time
	log  *slog.Logger
	seal seal.Sealer
	lock *lockFile

	mu      sync.Mutex
	wake    chan struct{} // has room for one
	pending []*op
	bytes   int // of the puts of pending
	storing map[deferred.Hash]struct{}
	broken  error // why the file cannot be written
	closed  bool

	state  sync.Mutex
	index  *index
	leases leases

	reading sync.RWMutex // held for writing while db is another
	db      *bbolt.DB    // nil: it could not be opened again
	opened  *os.File     // the file of db

	doubtful []deferred.ID // of puts that were answered Unstored and may be in the file
	ended    chan struct{}
}

var _ deferred.Queue = (*Queue)(nil)

// Bounds of what waits to be written. A put beyond is answered Unstored.
const (
	pendingMax      = 16384
	pendingBytesMax = 64 << 20
	groupMax        = 1024
	groupBytesMax   = 16 << 20
)

// An op is something that the writer does to index and file in a transaction.
//
// Owned by the writer once it is pending.
type op struct {
	run  func(t *turn)   // may run again after a commit has failed
	done func(err error) // when it is durable, or why it is not
	// keep has the op run again until it is durable.
	keep  bool
	bytes int
	put   *deferred.Put
}

// submit has the writer do o.
func (q *Queue) submit(o *op) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.closed:
		return deferred.ErrClosed
	case o.put != nil && q.broken != nil:
		return q.broken
	case o.put != nil && (len(q.pending) >= pendingMax || q.bytes+o.bytes > pendingBytesMax):
		return fmt.Errorf("%d entries wait to be written already", len(q.pending))
	}
	q.pending = append(q.pending, o)
	q.bytes += o.bytes
	q.ring()
	return nil
}

// ring wakes the writer.
func (q *Queue) ring() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// do has the writer do something, and waits until it is durable.
func (q *Queue) do(ctx context.Context, run func(t *turn)) error {
	done := make(chan error, 1)
	o := &op{run: run, done: func(err error) { done <- err }}
	if err := q.unbroken(); err != nil {
		return err
	}
	if err := q.submit(o); err != nil {
		return err
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// unbroken returns why the file cannot be written.
func (q *Queue) unbroken() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return deferred.ErrClosed
	}
	return q.broken
}

// Stats is part of deferred.Queue.
func (q *Queue) Stats() deferred.Stats {
	err := q.unbroken()
	q.state.Lock()
	defer q.state.Unlock()
	return deferred.Stats{
		Rules: q.index.Stats(), Bytes: q.index.Bytes, Unreadable: q.index.damaged, Durability: Durability, Err: err,
	}
}

// Pause is part of deferred.Queue.
func (q *Queue) Pause(ctx context.Context, name string, paused bool) error {
	return q.do(ctx, func(t *turn) {
		b := t.bucket(bucketPaused)
		if paused {
			must(b.Put([]byte(name), []byte{1}))
		} else {
			must(b.Delete([]byte(name)))
		}
		t.index.Rule(name).Paused = paused
		t.index.Reschedule()
	})
}

// Close is part of deferred.Queue. It must not be called by Done.
func (q *Queue) Close() error {
	q.mu.Lock()
	q.closed = true
	q.ring()
	q.mu.Unlock()
	<-q.ended
	return nil
}
