package file

import (
	"context"
	"encoding/binary"
	"math"
	"time"

	"weir/proxy/deferred"
)

// Claim implements deferred.Queue. It waits for the disk even if ctx ends, so that a claim always
// has somebody who delivers or returns its entries.
func (q *Queue) Claim(_ context.Context, now time.Time, n int, except ...string) (claimed []deferred.ClaimedEntry,
	next time.Time, err error) {
	if err := q.box.Err(); err != nil {
		return nil, now.Add(retryAfter), err
	}
	next, due := q.due(now, except)
	if !due || n < 1 {
		return nil, next, nil
	}
	if err := q.do(context.Background(), func(t *turn) { claimed, next = t.claims(now, n, except) }); err != nil {
		return nil, now.Add(retryAfter), err
	}
	return claimed, next, nil
}

// due reports whether Claim has something to do now, or otherwise when it will.
func (q *Queue) due(now time.Time, except []string) (next time.Time, due bool) {
	q.state.Lock()
	defer q.state.Unlock()
	us := now.UnixMicro()
	if q.index.Seen-us > stepMin.Microseconds() {
		return now, true
	}
	next = q.next(except)
	return next, !next.IsZero() && next.UnixMicro() <= us
}

// next returns when Claim has something to do, or zero if there is nothing. The caller holds
// state.
func (q *Queue) next(except []string) time.Time {
	next := q.index.forgetAt
	if t := q.index.Next(except); !t.IsZero() {
		next = min(next, t.UnixMicro())
	}
	if next == math.MaxInt64 {
		return time.Time{}
	}
	return time.UnixMicro(next)
}

func (t *turn) claims(now time.Time, n int, except []string) (claimed []deferred.ClaimedEntry, next time.Time) {
	t.see(now)
	us := now.UnixMicro()
	t.sweep(us)
	for len(claimed) < n {
		i := t.index.Pick(us, except)
		if i == 0 {
			break
		}
		if e, expired := t.claim(now, i); e != nil {
			t.q.tokens++
			l := deferred.Lease{ID: e.ID, Token: t.q.tokens}
			t.leased[l] = expired
			claimed = append(claimed, deferred.ClaimedEntry{Lease: l, Entry: e})
		}
	}
	return claimed, t.q.next(except)
}

// claim marks item number i as delivering. It returns nil if the entry cannot be read.
func (t *turn) claim(now time.Time, i uint32) (e *deferred.Entry, expired bool) {
	row := t.open(i, deferred.Waiting)
	if row == nil {
		return nil, false
	}
	e, err := t.whole(row, t.index.At(i).Seq)
	if err != nil {
		t.change(now, i, row, func() {
			row.Last = deferred.LastAttempt{At: now, Error: "the request cannot be read from " + t.q.cfg.Path}
			row.answered(nil)
			row.request = 0
		})
		t.giveUp(now, i, row, deferred.Failed)
		return nil, false
	}
	e.State = deferred.Delivering
	if !row.Expires.After(now) {
		return e, true
	}
	t.change(now, i, row, func() { row.State = deferred.Delivering })
	return e, false
}

// change changes the row of item number i.
func (t *turn) change(now time.Time, i uint32, row *row, change func()) {
	t.index.Count(row.Entry, row.size(), -1)
	change()
	t.put(bucketOpen, t.index.At(i).Seq, row.append(nil))
	t.index.Update(now.UnixMicro(), i, row.Entry, row.size())
}

// open returns the row of item number i, which is counted in a state. If it cannot be read, the
// entry is set aside and the row is nil.
func (t *turn) open(i uint32, counted deferred.State) *row {
	row, err := t.row(bucketOpen, t.index.At(i).Seq)
	if row == nil || err != nil {
		t.setAside(i, counted)
		return nil
	}
	return row
}

// setAside removes item number i, whose row cannot be read, from its line. counted is the state
// in which it was counted.
func (t *turn) setAside(i uint32, counted deferred.State) {
	it := t.index.At(i)
	raw := t.bucket(bucketOpen).Get(seqKey(it.Seq))
	must(t.bucket(bucketDamaged).Put(seqKey(it.Seq), append([]byte{}, raw...)))
	t.remove(bucketOpen, it.Seq)
	t.index.damaged++
	lost := &deferred.Entry{Rule: t.index.RuleOf(i), State: counted}
	t.index.Unlink(i, lost)
	t.unlinked = append(t.unlinked, i)
	t.q.log.Warn("An entry that cannot be read was set aside", "id", it.ID, "rule", lost.Rule)
}

// cutOff determines the state of an entry whose delivery was interrupted: the target may have
// received it.
func (t *turn) cutOff(now time.Time, i uint32, row *row) {
	last := deferred.LastAttempt{At: now, Error: deferred.LeaseExpired}
	if row.Keyed() {
		t.change(now, i, row, func() {
			row.State, row.Due, row.Last = deferred.Waiting, now, last
			row.Attempts++
		})
		return
	}
	t.change(now, i, row, func() { row.Last = last })
	t.giveUp(now, i, row, deferred.Unknown)
}

// giveUp ends an entry without a settlement.
func (t *turn) giveUp(now time.Time, i uint32, row *row, to deferred.State) {
	t.finish(now, i, row, ending{to, t.q.cfg.Limits.DeadKeep})
	t.givenUp = append(t.givenUp, deferred.GivenUpLabels{Rule: row.Rule, To: to})
}

// sweepMax bounds the entries that are deleted in one turn.
const sweepMax = 256

// sweep deletes final entries that need not be kept any longer. us is the current time in µs.
func (t *turn) sweep(us int64) {
	forget := t.bucket(bucketForget)
	var over [][2][]byte
	t.index.forgetAt = math.MaxInt64
	c := forget.Cursor()
	for k, id := c.First(); k != nil; k, id = c.Next() {
		at := int64(binary.BigEndian.Uint64(k))
		if at > us || len(over) == sweepMax {
			t.index.forgetAt = at
			break
		}
		over = append(over, [2][]byte{append([]byte(nil), k...), append([]byte(nil), id...)})
	}
	for _, o := range over {
		if row, p, err := t.final(deferred.ID(o[1])); row != nil && err == nil {
			t.drop(row, p)
		}
		must(forget.Delete(o[0]))
	}
}
