package file

import (
	"context"
	"time"

	"weir/proxy/deferred"
)

// Settle implements deferred.Queue.
func (q *Queue) Settle(now time.Time, s *deferred.Settlement) {
	s.Check()
	var lost error
	written := false
	o := &op{keep: true}
	o.run = func(t *turn) {
		again := written
		if written = true; !again { // in a repetition, now is out of date
			t.see(now)
		}
		if lost = t.settle(now, s); again && t.q.holds(s.Lease) {
			lost = nil // the failed commit may have been durable
		}
	}
	o.done = func(err error) {
		if err == nil {
			q.state.Lock()
			delete(q.leases, s.Lease)
			q.state.Unlock()
			err = lost
		}
		if s.Done != nil {
			s.Done(err)
		}
	}
	if err := q.box.Add(o, 0); err != nil {
		o.done(err)
	}
}

// settle writes the outcome of a claimed entry.
func (t *turn) settle(now time.Time, s *deferred.Settlement) error {
	expired, ok := t.q.leases[s.Lease]
	i := t.index.Find(s.Lease.ID)
	if !ok || i == 0 {
		return deferred.ErrLease
	}
	counted := deferred.Delivering
	if expired {
		counted = deferred.Waiting
	}
	row := t.open(i, counted)
	if row == nil || row.State != counted {
		return deferred.ErrLease
	}
	t.change(now, i, row, func() {
		row.State = deferred.Waiting
		if s.Attempt {
			row.Attempts++
		}
		if s.Last != (deferred.LastAttempt{}) {
			row.Last = s.Last
		}
		if s.Result != nil {
			row.answered(s.Result)
			t.putAnswer(t.index.At(i).Seq, s.Result)
		}
		if s.To == deferred.Waiting {
			row.Due = s.Due
		}
	})
	if s.To.Final() {
		t.finish(now, i, row, ending{s.To, s.Keep})
	}
	return nil
}

// An ending is the state of an entry that leaves its line, and how long it is kept.
type ending struct {
	state deferred.State
	keep  time.Duration
}

// finish removes item number i from its line.
func (t *turn) finish(now time.Time, i uint32, row *row, end ending) {
	seq := t.index.At(i).Seq
	t.remove(bucketOpen, seq)
	t.index.Unlink(i, row.Entry)
	t.unlinked = append(t.unlinked, i)
	row.State = end.state
	row.forget = now.Add(end.keep).UnixMicro()
	if end.state == deferred.Done || end.state == deferred.Cancelled {
		t.remove(bucketRequests, seq)
		row.request = 0
	}
	t.putFinal(row, seq)
	t.index.Count(row.Entry, row.size(), 1)
	t.index.forgetAt = min(t.index.forgetAt, row.forget)
	t.evict(row.Entry, seq)
}

// Renew implements deferred.Queue.
func (q *Queue) Renew(_ context.Context, _ time.Time, renewed []deferred.Lease) (lost []deferred.Lease, err error) {
	if q.box.Closed() {
		return nil, deferred.ErrClosed
	}
	q.state.Lock()
	defer q.state.Unlock()
	for _, l := range renewed {
		if !q.holds(l) {
			lost = append(lost, l)
		}
	}
	return lost, nil
}

// holds reports whether a lease is valid. The caller holds state.
func (q *Queue) holds(l deferred.Lease) bool {
	_, ok := q.leases[l]
	return ok
}
