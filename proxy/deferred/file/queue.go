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
)

// Durability describes what an accepted entry survives.
const Durability = "fsync"

// A Config describes the file and its bounds.
type Config struct {
	Path   string
	Limits deferred.Limits
	Key    []byte       // 32 bytes, to encrypt entries; empty: they are not encrypted
	Log    *slog.Logger // nil: none

	hooks hooks // for tests
}

// hooks are called in tests.
type hooks struct {
	committing func() error // before each commit; an error makes it fail
	committed  func() error // after each commit; an error makes it appear to fail
	retry      time.Duration
}

// A Queue is a deferred.Queue in a file.
//
// Safe for concurrent use: box passes ops to the writer, state guards the index. The writer holds
// state while it executes a group, but not while it waits for the disk.
type Queue struct {
	cfg  Config
	now  time.Time // when it was last opened
	log  *slog.Logger
	seal deferred.Sealer
	lock *os.File

	box *deferred.WriteBuffer[*op]

	state   sync.Mutex
	index   *index
	givenUp deferred.GivenUpCounts
	evicted uint64
	// leases are those of all claimed entries; true says that the entry has expired and its row that
	// it waits. They are in memory only, and none ends by time: the file belongs to one proxy, and
	// deliveries in progress when it ended were cut off. Otherwise an entry would be delivered twice
	// when the clock is set forward.
	leases map[deferred.Lease]bool
	tokens uint64 // the number of leases so far

	reading sync.RWMutex // held for writing while db is replaced
	db      *bbolt.DB    // nil: reopening has failed
	opened  *os.File     // the open file of db

	doubtful []deferred.ID // puts that were answered Unstored and may be in the file
	ended    chan struct{}
}

var _ deferred.Queue = (*Queue)(nil)

// Bounds of one transaction.
const (
	groupMax      = 1024
	groupBytesMax = 16 << 20
)

// An op is a change of index and file by the writer.
//
// Owned by the writer once it is pending.
type op struct {
	run  func(t *turn)   // may be called again after a failed commit
	done func(err error) // called when the op is durable, or with the error
	// keep makes the op run again until it is durable.
	keep bool
	put  *deferred.PutRequest
}

// do passes an op to the writer and waits until it is durable.
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

// Stats implements deferred.Queue.
func (q *Queue) Stats() deferred.Stats {
	err := q.box.Err()
	q.state.Lock()
	defer q.state.Unlock()
	return deferred.Stats{
		Rules: q.index.Stats(), Bytes: q.index.Bytes, Unreadable: q.index.damaged, Durability: Durability, Err: err,
		GivenUp: maps.Clone(q.givenUp), Evicted: q.evicted,
	}
}

// Pause implements deferred.Queue.
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

// Close implements deferred.Queue. It must not be called by Done.
func (q *Queue) Close() error {
	q.box.Close()
	<-q.ended
	return nil
}
