package file

import (
	"context"
	"errors"
	"time"

	"weir/proxy/deferred"
)

// Edit implements deferred.Queue.
func (q *Queue) Edit(ctx context.Context, now time.Time, e deferred.Edit) (n int, err error) {
	return deferred.EditByID(ctx, q, e, func(ids []deferred.ID) ([]error, error) {
		var refused []error // set by the writer, which continues after ctx has ended
		err := q.do(ctx, func(t *turn) {
			refused = nil
			for _, id := range ids {
				refused = append(refused, t.edit(now, &e, id))
			}
		})
		if err != nil {
			return nil, err
		}
		return refused, nil
	})
}

func (t *turn) edit(now time.Time, e *deferred.Edit, id deferred.ID) error {
	t.see(now)
	if i := t.index.Find(id); i != 0 {
		return t.cancel(now, e, i)
	}
	row, p, err := t.final(id)
	switch {
	case row == nil && err == nil:
		return deferred.ErrNotFound
	case err != nil:
		return err
	case e.Action == deferred.Drop:
		t.drop(row, p)
		return nil
	case e.Action == deferred.Retry && row.State.Dead():
		return t.retry(now, row, p)
	}
	return deferred.ErrState
}

// cancel cancels item number i, if that is the action and the entry waits.
func (t *turn) cancel(now time.Time, e *deferred.Edit, i uint32) error {
	it := t.index.At(i)
	if e.Action != deferred.Cancel || it.Delivering {
		return deferred.ErrState
	}
	row, err := t.row(bucketOpen, it.Seq)
	if err == nil && row == nil {
		err = deferred.ErrDamaged
	}
	if err != nil {
		return err
	}
	row.answered(e.Result)
	t.putAnswer(it.Seq, e.Result)
	t.finish(now, i, row, ending{deferred.Cancelled, t.q.cfg.Limits.DeadKeep})
	return nil
}

// drop deletes a final entry.
func (t *turn) drop(row *row, p place) {
	t.index.Count(row.Entry, row.size(), -1)
	t.removeFinal(row, p.seq)
	t.remove(bucketRequests, p.seq)
	t.remove(bucketAnswers, p.seq)
}

// retry moves a dead entry to the end of its line.
func (t *turn) retry(now time.Time, row *row, p place) error {
	e, err := t.entry(bucketRequests, p.seq)
	if err == nil && e == nil {
		err = errors.New("its request no longer exists")
	}
	if err != nil {
		return err
	}
	if other, _ := t.scoped(row.Scope); row.Keyed() && other != nil && other.ID != row.ID {
		return deferred.ErrState
	}
	t.drop(row, p)
	e.Accepted, e.Due, e.Expires = now, now, now.Add(row.Expires.Sub(row.Accepted))
	e.Last = row.Last
	t.add(newRow(e), e)
	return nil
}
