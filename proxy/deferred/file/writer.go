package file

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"runtime/debug"
	"time"

	"go.etcd.io/bbolt"

	"weir/internal/program/ownfile"
	"weir/proxy/deferred"
)

// retryAfter is the pause after a failed write before the file is opened again.
const retryAfter = time.Second

// A turn is one transaction of the writer.
//
// Owned by the writer.
type turn struct {
	records
	q        *Queue
	index    *index
	leased   map[deferred.Lease]bool  // leases that begin when the transaction is durable
	unlinked []uint32                 // items to remove from the index when the transaction is durable
	givenUp  []deferred.GivenUpLabels // counted when the transaction is durable
	evicted  uint64                   // likewise
}

// write is the writer's goroutine: it commits groups until the queue is closed.
func (q *Queue) write() {
	defer close(q.ended)
	retry := time.NewTicker(q.cfg.hooks.retry)
	defer retry.Stop()
	q.box.Run(retry.C, q.drain, q.repair)
	q.finish()
}

// drain commits all pending ops. While the file cannot be written it refuses them: an op may
// have been added by somebody who saw that it can.
func (q *Queue) drain() {
	if why := q.box.Failure(); why != nil {
		q.refuse(q.box.All(), why)
		return
	}
	for group := q.box.Dequeue(groupMax, groupBytesMax); len(group) > 0; group = q.box.Dequeue(groupMax, groupBytesMax) {
		if err := q.transact(func(t *turn) {
			for _, o := range group {
				o.run(t)
			}
		}); err != nil {
			q.fail(group, err)
			return
		}
		for _, o := range group {
			o.done(nil)
		}
	}
}

// transact calls run in a transaction and commits it. A panic, which damaged pages cause in
// bbolt, is returned as an error.
func (q *Queue) transact(run func(t *turn)) error {
	var tx *bbolt.Tx
	t := &turn{q: q, index: q.index, leased: make(map[deferred.Lease]bool)}
	err := guarded(func() (err error) {
		if tx, err = q.db.Begin(true); err != nil {
			return err
		}
		t.records = records{tx, q.seal}
		tx.Bucket(bucketOpen).FillPercent, tx.Bucket(bucketRequests).FillPercent = fillPercent, fillPercent
		q.state.Lock()
		defer q.state.Unlock()
		run(t)
		return nil
	})
	if err == nil {
		err = guarded(func() error {
			if hook := q.cfg.hooks.committing; hook != nil {
				if err := hook(); err != nil {
					return err
				}
			}
			if err := tx.Commit(); err != nil {
				return err
			}
			if hook := q.cfg.hooks.committed; hook != nil {
				return hook()
			}
			return nil
		})
	}
	if err != nil {
		q.giveUp(tx, err)
		return err
	}
	q.state.Lock()
	defer q.state.Unlock()
	for _, i := range t.unlinked {
		q.index.Forget(i)
	}
	for _, l := range t.givenUp {
		q.givenUp[l]++
	}
	q.evicted += t.evicted
	maps.Copy(q.leases, t.leased)
	return nil
}

// giveUp ends a failed transaction. After a panic bbolt cannot do so, and would check all pages
// in a goroutine of its own. Then the file is closed and the memory of bbolt is not freed.
func (q *Queue) giveUp(tx *bbolt.Tx, why error) {
	if errors.Is(why, errPages) {
		q.reading.Lock()
		defer q.reading.Unlock()
		_ = q.opened.Close() // committed data is durable
		q.db = nil
		return
	}
	if tx != nil {
		_ = tx.Rollback() // already ended if the commit has failed
	}
}

// fillPercent is the fill level of pages to which entries are only appended.
const fillPercent = 0.95

// guarded calls f and returns panics, and faults of unreadable pages, as errors.
func guarded(f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%w: %v", errPages, r)
		}
	}()
	return f()
}

// errPages is the error of pages that bbolt cannot read.
var errPages = errors.New("the file is damaged")

// fail refuses a group, and pending ops, because the file cannot be written. It is unknown whether
// the group is in the file.
func (q *Queue) fail(group []*op, why error) {
	why = fmt.Errorf("write %s: %w", q.cfg.Path, why)
	for _, o := range group {
		if o.put != nil {
			q.doubtful = append(q.doubtful, o.put.Entry.ID)
		}
	}
	_ = q.box.Fail(why) // nothing is written while the box is broken
	q.log.Error("Queue cannot be written, refusing instead", "reason", why)
	q.refuse(append(group, q.box.All()...), why)
}

// refuse answers ops with an error, and keeps those that must become durable.
func (q *Queue) refuse(ops []*op, why error) {
	for _, o := range ops {
		if o.keep {
			q.box.Return(o, 0)
		} else {
			o.done(why)
		}
	}
}

// repair opens the file again if there is room on the disk, and makes its content agree with the
// answers to callers. If that succeeds the queue continues.
func (q *Queue) repair() {
	q.now = time.UnixMicro(q.index.Seen)
	if tryDisk(q.cfg.Path+suffixTry) != nil || q.reopen() != nil {
		return
	}
	if q.transact(func(t *turn) { t.correct(q.doubtful) }) != nil {
		return
	}
	q.doubtful = nil
	q.box.Recover()
	q.log.Info("Queue writes again")
}

// suffixTry is the suffix of a file that is written to test whether there is room.
const suffixTry = ".try"

// tryBytes is the size of that file: more than most groups need, since otherwise the next one
// would fail.
const tryBytes = 1 << 20

// tryDisk writes a file and removes it. This is cheaper than opening the queue.
func tryDisk(path string) error {
	f, err := ownfile.Open(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, fileMode)
	if err != nil {
		return err
	}
	_, err = f.Write(make([]byte, tryBytes))
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close(), os.Remove(path))
}

// correct removes what a group whose callers got an error may have left: puts, and claims without
// a lease.
func (t *turn) correct(doubtful []deferred.ID) {
	for _, id := range doubtful {
		t.takeOut(id)
	}
	leased := make(map[deferred.ID]bool)
	for l := range t.q.leases {
		leased[l.ID] = true
	}
	for _, i := range t.index.Delivering() {
		if leased[t.index.At(i).ID] {
			continue
		}
		if row := t.open(i, deferred.Delivering); row != nil {
			t.change(time.UnixMicro(t.index.Seen), i, row, func() { row.State = deferred.Waiting })
		}
	}
	t.stamp(t.index.Seen) // even if there is nothing else to write
}

// takeOut removes an entry that was answered Unstored.
func (t *turn) takeOut(id deferred.ID) {
	i := t.index.Find(id)
	if i == 0 {
		return
	}
	seq := t.index.At(i).Seq
	row, err := t.row(bucketOpen, seq)
	if row == nil || err != nil {
		return
	}
	t.remove(bucketOpen, seq)
	t.remove(bucketRequests, seq)
	t.index.Unlink(i, row.Entry)
	t.unlinked = append(t.unlinked, i)
}

// finish ends the queue when it is closed.
func (q *Queue) finish() {
	for _, o := range q.box.All() {
		o.done(deferred.ErrClosed)
	}
	q.reading.Lock()
	defer q.reading.Unlock()
	q.shut()
	unlock(q.lock)
}
