package file

import (
	"time"

	"weir/proxy/deferred"
)

// Put implements deferred.Queue.
func (q *Queue) Put(now time.Time, p *deferred.PutRequest) {
	var stored deferred.PutResult
	q.box.Put(&op{put: p, run: func(t *turn) { stored = t.store(now, p) }, done: func(err error) {
		if err != nil {
			stored = deferred.PutFailed(err)
		}
		q.box.Stored(p, stored)
	}}, p)
}

// store writes an entry if it is new and there is room.
func (t *turn) store(now time.Time, p *deferred.PutRequest) deferred.PutResult {
	t.see(now)
	e := p.Fresh()
	if t.index.FindAny(e.ID) != 0 || t.bucket(bucketIDs).Get(e.ID[:]) != nil {
		return deferred.PutFailed(deferred.ErrDuplicateID)
	}
	if e.Keyed() {
		if same, ok := t.same(&e); ok {
			return same
		}
	}
	row := newRow(&e)
	if b := t.index.Bound(&t.q.cfg.Limits, p,
		EntrySizes{Entry: row.size(), Kept: t.kept(t.seal.Client(&e))}); b != deferred.NoBound {
		return deferred.PutResult{Outcome: deferred.Full, Bound: b, Due: t.index.Due(&e)}
	}
	s := storedOf(deferred.Accepted, row.Entry)
	s.Position = t.add(row, &e)
	return s
}

// add appends a complete entry with its row to its line, and returns its position there.
func (t *turn) add(row *row, e *deferred.Entry) (position int) {
	seq := t.index.Last + 1
	t.put(bucketOpen, seq, row.append(nil))
	t.put(bucketRequests, seq, deferred.AppendEntry(nil, e))
	return t.index.Add(row.Entry, row.size(), seq)
}

// storedOf returns the result of a put for an entry that is in the queue.
func storedOf(o deferred.Outcome, e *deferred.Entry) deferred.PutResult {
	return deferred.PutResult{Outcome: o, ID: e.ID, State: e.State, Due: e.Due, Expires: e.Expires,
		Durability: Durability, Scope: deferred.ScopeOneProxy}
}

// same returns the result of a put if there is already an entry with e's scope.
func (t *turn) same(e *deferred.Entry) (s deferred.PutResult, ok bool) {
	row, i := t.scoped(e.Scope)
	if row == nil {
		return s, false
	}
	outcome := deferred.Duplicate
	if row.Fingerprint != e.Fingerprint {
		outcome = deferred.Conflict
	}
	s = storedOf(outcome, row.Entry)
	s.Position = t.index.Position(i)
	return s, true
}

// scoped returns the row of the entry that has a scope, and the number of its item if it is in a
// line, or nil if there is none. An unreadable entry is set aside when its turn comes.
func (t *turn) scoped(scope deferred.SHA256) (row *row, i uint32) {
	var err error
	if i = t.index.FindByScope(scope); i != 0 {
		row, err = t.row(bucketOpen, t.index.At(i).Seq)
	} else if id := t.bucket(bucketScopes).Get(scope[:]); id != nil {
		row, _, err = t.final(deferred.ID(id))
	}
	if row == nil || err != nil || row.Scope != scope || row.NeverSent() {
		return nil, 0
	}
	return row, i
}

// final returns the row of a final entry and its place, or nil if there is none.
func (r records) final(id deferred.ID) (*row, place, error) {
	p, ok := parsePlace(r.bucket(bucketIDs).Get(id[:]))
	if !ok {
		return nil, p, nil
	}
	row, err := r.row(bucketOf(p.state), p.seq)
	return row, p, err
}

// stepMin is how far the clock must step back to count as set back: calls of several loops may
// arrive out of order.
const stepMin = 5 * time.Second

// see records that the time is at least now, or that the clock was set back.
func (t *turn) see(now time.Time) {
	us := now.UnixMicro()
	if step := time.Duration(t.index.Seen-us) * time.Microsecond; step > stepMin {
		t.q.log.Warn("Clock was set back; the remaining delays of waiting requests stay the same", "by",
			step.Round(time.Second))
		t.index.ShiftTimes(us)
		t.stamp(us)
	}
	t.index.Seen = max(t.index.Seen, us)
	if t.index.Seen-t.index.stamped > stampEvery.Microseconds() {
		t.stamp(t.index.Seen)
	}
}

// stampEvery is the interval for writing the time to the file.
const stampEvery = 10 * time.Second

func (t *turn) stamp(us int64) {
	must(t.bucket(bucketAbout).Put(aboutSeen, seqKey(uint64(us))))
	t.index.stamped = us
}
