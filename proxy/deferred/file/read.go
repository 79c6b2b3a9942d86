package file

import (
	"context"
	"encoding/binary"
	"fmt"
	"strconv"

	"go.etcd.io/bbolt"

	"weir/proxy/deferred"
)

// view calls read in a read transaction.
func (q *Queue) view(read func(r records) error) error {
	q.reading.RLock()
	defer q.reading.RUnlock()
	if q.db == nil {
		if err := q.box.Err(); err != nil {
			return err
		}
		return deferred.ErrClosed
	}
	return guarded(func() error {
		return q.db.View(func(tx *bbolt.Tx) error { return read(records{tx, q.seal}) })
	})
}

// Read implements deferred.Queue.
func (q *Queue) Read(_ context.Context, id deferred.ID) (e *deferred.Entry, position int, err error) {
	for range 2 { // an entry that is retried between the two lookups is found by the second
		q.state.Lock()
		var seq uint64
		if i := q.index.FindAny(id); i != 0 {
			seq, position = q.index.At(i).Seq, q.index.Position(i)
		}
		q.state.Unlock()
		err = q.view(func(r records) (err error) {
			e, err = r.read(id, seq)
			return err
		})
		if e != nil || err != nil {
			break
		}
	}
	switch {
	case err != nil:
		return nil, 0, fmt.Errorf("read entry %s: %w", id, err)
	case e == nil:
		return nil, 0, deferred.ErrNotFound
	case e.State.Final():
		position = 0
	}
	return e, position, nil
}

// read returns an entry: the open one with that sequence number if seq is not 0, otherwise the
// final one.
func (r records) read(id deferred.ID, seq uint64) (*deferred.Entry, error) {
	if seq != 0 {
		row, err := r.row(bucketOpen, seq)
		if err != nil {
			return nil, err
		}
		if row != nil && row.ID == id {
			return r.whole(row, seq)
		}
	}
	row, p, err := r.final(id)
	if row == nil || err != nil {
		return nil, err
	}
	return r.whole(row, p.seq)
}

// Known implements deferred.Queue.
func (q *Queue) Known(_ context.Context, scope deferred.SHA256) (known bool, err error) {
	q.state.Lock()
	known = q.index.FindByScope(scope) != 0
	q.state.Unlock()
	if known {
		return true, nil
	}
	err = q.view(func(r records) error {
		if id := r.bucket(bucketScopes).Get(scope[:]); id != nil {
			row, _, err := r.final(deferred.ID(id))
			known = err == nil && row != nil && !row.NeverSent()
		}
		return nil
	})
	return known, err
}

// listScan bounds the rows that are read for one page; a page may be shorter than requested.
const listScan = 50_000

// List implements deferred.Queue.
func (q *Queue) List(_ context.Context, query deferred.Query) (page deferred.Page, err error) {
	after, err := query.Start()
	if err != nil {
		return page, err
	}
	err = q.view(func(r records) error {
		page = deferred.Page{}
		scanned := 0
		c := r.bucket(bucketOf(query.State)).Cursor()
		for k, _ := c.Seek(seqKey(after + 1)); k != nil; k, _ = c.Next() {
			if len(page.Entries) == query.Limit || scanned == listScan {
				page.Next = strconv.FormatUint(after, 10)
				return nil
			}
			scanned++
			after = binary.BigEndian.Uint64(k)
			row, err := r.row(bucketOf(query.State), after)
			if err == nil && row.State == query.State && (query.Rule == "" || row.Rule == query.Rule) {
				page.Entries = append(page.Entries, row.Entry)
			}
		}
		return nil
	})
	return page, err
}
