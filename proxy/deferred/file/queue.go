package file

import (
	"context"
	"log/slog"
	"maps"
	"os"
	"sync"
	"time"

	"go.etcd.io/bbolt"

	"weir/proxy/deferred"
	"weir/proxy/deferred/inbox"
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
// Safe for concurrent use: box has what the writer is given, state guards what entries there are.
// The writer takes state while it works out a group, not while it waits for the disk.
type Queue struct {
	cfg  Config
	now  time.Time // when it was opened, the last time
	log  *slog.Logger
	seal seal.Sealer
	lock *lockFile

	box *inbox.Box[*op]

	state   sync.Mutex
	index   *index
	leases  leases
	givenUp deferred.Losses

	reading sync.RWMutex // held for writing while db is another
	db      *bbolt.DB    // nil: it could not be opened again
	opened  *os.File     // the file of db

	doubtful []deferred.ID // of puts that were answered Unstored and may be in the file
	ended    chan struct{}
}

var _ deferred.Queue = (*Queue)(nil)

// Bounds of what is written at a time.
const (
	groupMax      = 1024
	groupBytesMax = 16 << 20
)

// An op is something that the writer does to index and file in a transaction.
//
// Owned by the writer once it is pending.
type op struct {
	run  func(t *turn)   // may run again after a commit has failed
	done func(err error) // when it is durable, or why it is not
	// keep has the op run again until it is durable.
	keep bool
	put  *deferred.Put
}

// do has the writer do something, and waits until it is durable.
func (q *Queue) do(ctx context.Context, run func(t *turn)) error {
	done := make(chan error, 1)
	o := &op{run: run, done: func(err error) { done <- err }}
	if err := q.box.Err(); err != nil {
		return err
	}
	if err := q.box.Add(o, 0); err != nil {
		return err
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Stats is part of deferred.Queue.
func (q *Queue) Stats() deferred.Stats {
	err := q.box.Err()
	q.state.Lock()
	defer q.state.Unlock()
	return deferred.Stats{
		Rules: q.index.Stats(), Bytes: q.index.Bytes, Unreadable: q.index.damaged, Durability: Durability, Err: err,
		GivenUp: maps.Clone(q.givenUp),
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
	q.box.Close()
	<-q.ended
	return nil
}
