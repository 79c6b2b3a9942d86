package redis

import (
	"errors"
	"slices"
	"strconv"
	"time"

	"weir/proxy/deferred"
)

// Put implements deferred.Queue.
func (q *Queue) Put(now time.Time, p *deferred.PutRequest) {
	q.box.Put(&op{now: now, put: p, bytes: int(p.Entry.Size())}, p)
}

// Settle implements deferred.Queue.
func (q *Queue) Settle(now time.Time, s *deferred.Settlement) {
	s.Check()
	o := &op{now: now, settle: s, bytes: int(s.Result.Size())}
	if err := q.box.Add(o, o.bytes); err != nil && s.Done != nil {
		s.Done(err)
	}
}

// write is the writer's goroutine: it writes group after group until the queue is closed, and
// retries a server that has failed.
func (q *Queue) write() {
	defer q.cancel()
	retry := time.NewTicker(retryEvery)
	defer retry.Stop()
	q.box.Run(retry.C, q.drain, q.retry)
	q.giveUp()
}

// drain writes what is pending, unless the server is unavailable. While the queue cannot be
// written it refuses puts: they may have been added before that was known.
func (q *Queue) drain() {
	if q.unavailable() == nil || q.box.Closed() {
		q.writeAll()
	}
	if why := q.box.Failure(); why != nil && !q.box.Closed() { // then giveUp answers all
		q.refuse(q.box.All(), why)
	}
}

// writeAll writes what is pending, and reports whether all of it is written.
func (q *Queue) writeAll() bool {
	for q.ctx.Err() == nil {
		group := q.box.Dequeue(groupMax, groupBytesMax)
		if len(group) == 0 {
			return true
		}
		if !q.writeGroup(group) {
			return false
		}
	}
	return false
}

// refuse answers puts with Unstored, and keeps settlements.
func (q *Queue) refuse(ops []*op, why error) {
	for _, o := range ops {
		if o.put == nil {
			q.box.Return(o, o.bytes)
		} else {
			q.box.Stored(o.put, deferred.PutFailed(why))
		}
	}
}

// A part is the ops of a group that one call writes.
type part struct {
	ask
	ops   []*op
	bytes int
}

// writeGroup writes a group in one pipeline, and reports whether all of it is written.
func (q *Queue) writeGroup(group []*op) bool {
	var parts []*part
	last := map[bool]*part{}
	for _, o := range group {
		isPut := o.put != nil
		p := last[isPut]
		if p == nil || len(p.ops) == callMax || p.bytes+o.bytes > callBytesMax {
			p = &part{ask: ask{script: q.scripts.settle, writes: true, args: []string{decimal(q.cfg.Limits.FinalBytesMax())}}}
			if isPut {
				p.ask = ask{script: q.scripts.put, until: true, writes: true, args: q.putHead()}
			}
			last[isPut] = p
			parts = append(parts, p)
		}
		if p.ops, p.bytes = append(p.ops, o), p.bytes+o.bytes; isPut {
			p.args = q.appendPut(p.args, o)
		} else {
			p.args = q.appendSettle(p.args, o)
		}
	}
	asks := make([]*ask, len(parts))
	for i, p := range parts {
		asks[i] = &p.ask
	}
	q.ask(q.ctx, asks...)
	written := true
	for _, p := range parts {
		written = q.wrote(p) && written
	}
	return written
}

// putHead returns the first arguments of put.lua, which are the bounds.
func (q *Queue) putHead() []string {
	l := &q.cfg.Limits
	entries, bytes := l.ShareMax()
	return []string{decimal(l.Entries), decimal(l.Bytes), decimal(entries), decimal(bytes)}
}

// appendPut appends the arguments of put.lua for a put.
func (q *Queue) appendPut(args []string, o *op) []string {
	e := o.put.Fresh()
	names := q.codec.seal.Digests(&e)
	return append(args, string(e.ID[:]), e.Rule, digest(names.LineKey), decimal(e.ParallelMax()), digest(names.Client),
		bit(e.Keyed()), bit(e.LineKey != ""),
		decimal(e.Due.Sub(o.now).Microseconds()), decimal(e.Expires.Sub(o.now).Microseconds()),
		decimal(deferred.UnixMicros(e.Accepted)), decimal(deferred.UnixMicros(e.Expires)),
		decimal(deferred.UnixMicros(e.Due)),
		decimal(e.Size()), decimal(len(e.Head)+len(e.Body)), digest(names.Scope), digest(names.Fingerprint),
		decimal(o.put.PerKey), bit(o.put.Follows), q.codec.fixed(&e), q.codec.request(&e))
}

// digest returns a name as an argument of scripts; empty if there is none.
func digest(name deferred.KeyedDigest) string {
	if name == (deferred.KeyedDigest{}) {
		return ""
	}
	return string(name[:])
}

// appendSettle appends the arguments of settle.lua for a settlement.
func (q *Queue) appendSettle(args []string, o *op) []string {
	s := o.settle
	r := s.Result
	if r == nil {
		r = &deferred.Result{}
	}
	again := o.again
	o.again = true
	return append(args, string(s.Lease.ID[:]), strconv.FormatUint(s.Lease.Token, 10), bit(again), decimal(int(s.To)),
		decimal(s.Due.Sub(o.now).Microseconds()), decimal(deferred.UnixMicros(s.Due)), bit(s.Attempt),
		bit(s.Last != deferred.LastAttempt{}), decimal(deferred.UnixMicros(s.Last.At)), decimal(s.Last.Status), s.Last.Error,
		bit(s.Result != nil), decimal(r.Status), decimal(r.Bytes), bit(r.Truncated), decimal(r.Size()),
		q.codec.result(s.Result, s.Lease.ID), decimal(s.Keep.Microseconds()))
}

// wrote reports the results of a call to its ops, and returns whether they are written.
func (q *Queue) wrote(p *part) bool {
	results := list(p.answer.result)
	if p.err == nil && len(results) != len(p.ops) {
		p.err = errReply
	}
	if p.err != nil {
		q.failed(p)
		return false
	}
	for i, o := range p.ops {
		r := reader{results[i:]}
		switch {
		case o.put != nil:
			q.box.Stored(o.put, q.stored(o, list(r.value())))
		case o.settle.Done == nil:
		case r.int() == 1:
			o.settle.Done(nil)
		default:
			o.settle.Done(deferred.ErrLease)
		}
	}
	return true
}

// stored reads what put.lua returns of one put.
func (q *Queue) stored(o *op, values []any) deferred.PutResult {
	r := reader{values}
	s := deferred.PutResult{Outcome: deferred.Outcome(r.int()), Bound: deferred.ExceededBound(r.int()), ID: r.id(),
		Durability: q.durability(), Scope: deferred.ScopeShared}
	s.State, s.Position = deferred.State(r.int()), int(r.int())
	if due := r.value(); due != "" {
		after := reader{[]any{due}}
		s.Due = o.now.Add(time.Duration(after.int()) * time.Microsecond)
	}
	s.Expires = r.time()
	if s.Outcome == deferred.Unstored {
		return deferred.PutFailed(deferred.ErrDuplicateID)
	}
	return s
}

// failed answers puts with Unstored, whether they were not written or may have been. Settlements
// are kept.
func (q *Queue) failed(p *part) {
	f := q.faultOf(p.err)
	var why error = f
	if q.box.Closed() {
		why = p.err
	} else {
		q.broken(f)
	}
	for _, o := range p.ops {
		if o.put != nil && f.code == "" && !errors.Is(p.err, errLate) && len(q.doubtful) < doubtfulMax {
			q.doubtful = append(q.doubtful, o.put.Entry.ID)
		}
	}
	q.refuse(p.ops, why)
}

// giveUp answers pending puts and settlements when the queue is closed.
func (q *Queue) giveUp() {
	for _, o := range q.box.All() {
		switch {
		case o.put != nil:
			q.box.Stored(o.put, deferred.PutFailed(deferred.ErrClosed))
		case o.settle.Done != nil:
			o.settle.Done(deferred.ErrClosed)
		}
	}
	if q.unclaimed() {
		back, _ := q.newClaim(q.now(), 0, "0")
		q.ask(q.ctx, back)
	}
}

// probe checks whether the server can store.
func (q *Queue) probe() error {
	a := &ask{script: q.scripts.put, args: q.putHead(), writes: true}
	q.ask(q.ctx, a)
	return a.err
}

// retry tries a server that has failed. When it answers again, puts that were answered Unstored
// but may have been stored are removed, and waiting settlements are written: a claim could take
// their entries back.
func (q *Queue) retry() {
	if err := q.probe(); err != nil {
		q.broken(q.faultOf(err))
		return
	}
	if err := q.withdraw(q.doubtful); err != nil {
		return
	}
	q.doubtful = nil
	if !q.writeAll() {
		return
	}
	q.box.Recover()
	q.log.Info("Queue writes again")
	q.look(q.ctx)
	q.readSettings(q.ctx)
}

// withdraw removes those of the entries that were not claimed.
func (q *Queue) withdraw(ids []deferred.ID) error {
	taken := 0
	for some := range slices.Chunk(ids, callMax) {
		results, err := q.edit(q.ctx, q.now(), deferred.Edit{Action: editWithdraw}, some)
		if err != nil {
			return err
		}
		for _, r := range results {
			if r == editState {
				taken++
			}
		}
	}
	if taken > 0 {
		q.log.Warn("Requests that were refused are delivered: Redis had stored them, but its answer was lost", "requests",
			taken)
	}
	return nil
}
