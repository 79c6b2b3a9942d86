package redis

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"weir/proxy/deferred"
	"weir/proxy/deferred/seal"
)

// Put is part of deferred.Queue.
func (q *Queue) Put(now time.Time, p *deferred.Put) {
	if err := q.submit(&op{now: now, put: p, bytes: int(p.Entry.Size())}); err != nil {
		p.Done(deferred.Stored{Outcome: deferred.Unstored, Err: err})
	}
}

// Settle is part of deferred.Queue.
func (q *Queue) Settle(now time.Time, s *deferred.Settlement) {
	s.Check()
	o := &op{now: now, settle: s}
	if s.Result != nil {
		o.bytes = len(s.Result.Head) + len(s.Result.Body)
	}
	if err := q.submit(o); err != nil && s.Done != nil {
		s.Done(err)
	}
}

// submit has the writer do o.
func (q *Queue) submit(o *op) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.closed:
		return deferred.ErrClosed
	case o.put != nil && q.fault != nil:
		return q.fault
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

// write is the writer: it writes group after group until the queue is closed, and finds out
// when a server that has failed is back.
func (q *Queue) write() {
	defer q.cancel()
	retry := time.NewTicker(retryEvery)
	defer retry.Stop()
	for {
		select {
		case <-q.wake:
		case <-retry.C:
			q.retry()
		case <-q.ctx.Done():
		}
		if q.unavailable() == nil || q.isClosed() {
			q.drain()
		}
		if q.isClosed() {
			q.giveUp()
			return
		}
	}
}

// drain writes what is pending.
func (q *Queue) drain() {
	for q.ctx.Err() == nil {
		group := q.take()
		if len(group) == 0 || !q.writeGroup(group) {
			return
		}
	}
}

// take returns the next group.
func (q *Queue) take() []*op {
	q.mu.Lock()
	defer q.mu.Unlock()
	n, bytes := 0, 0
	for n < len(q.pending) && n < groupMax && (n == 0 || bytes+q.pending[n].bytes <= groupBytesMax) {
		bytes += q.pending[n].bytes
		n++
	}
	group := append([]*op(nil), q.pending[:n]...)
	q.pending = append(q.pending[:0], q.pending[n:]...)
	clear(q.pending[len(q.pending) : len(q.pending)+n])
	q.bytes -= bytes
	return group
}

// A part is the ops of a group that one call is about.
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
			p = &part{ask: ask{script: q.scripts.settle, writes: true}}
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

// putHead are the bounds, as put.lua has them.
func (q *Queue) putHead() []string {
	l := &q.cfg.Limits
	entries, bytes := l.Most()
	return []string{decimal(l.Entries), decimal(l.Bytes), decimal(entries), decimal(bytes)}
}

// appendPut appends what put.lua wants to know of a put.
func (q *Queue) appendPut(args []string, o *op) []string {
	e := o.put.Fresh()
	names := q.codec.seal.Names(&e)
	return append(args, string(e.ID[:]), e.Rule, digest(names.Line), decimal(e.AtOnce()), digest(names.Client), bit(e.Keyed()), bit(e.Line != ""),
		decimal(e.Due.Sub(o.now).Microseconds()), decimal(e.Expires.Sub(o.now).Microseconds()), decimal(deferred.Micros(e.Accepted)), decimal(deferred.Micros(e.Expires)), decimal(deferred.Micros(e.Due)),
		decimal(e.Size()), decimal(len(e.Head)+len(e.Body)), digest(names.Scope), digest(names.Print), decimal(o.put.PerKey), bit(o.put.Follows), q.codec.fixed(&e), q.codec.request(&e))
}

// digest is a name as scripts are told it; empty: there is none.
func digest(name seal.Name) string {
	if name == (seal.Name{}) {
		return ""
	}
	return string(name[:])
}

// appendSettle appends what settle.lua wants to know of a settlement.
func (q *Queue) appendSettle(args []string, o *op) []string {
	s := o.settle
	r := s.Result
	if r == nil {
		r = &deferred.Result{}
	}
	again := o.again
	o.again = true
	return append(args, string(s.Lease.ID[:]), strconv.FormatUint(s.Lease.Token, 10), bit(again), decimal(int(s.To)), decimal(s.Due.Sub(o.now).Microseconds()), decimal(deferred.Micros(s.Due)), bit(s.Attempt),
		bit(s.Last != deferred.Last{}), decimal(deferred.Micros(s.Last.At)), decimal(s.Last.Status), s.Last.Error,
		bit(s.Result != nil), decimal(r.Status), decimal(r.Bytes), bit(r.Truncated), decimal(len(r.Head)+len(r.Body)), q.codec.result(s.Result, s.Lease.ID), decimal(s.Keep.Microseconds()))
}

// wrote tells the ops of a call what came of them, and reports whether they are written.
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
			o.put.Done(q.stored(o, list(r.value())))
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
func (q *Queue) stored(o *op, values []any) deferred.Stored {
	r := reader{values}
	s := deferred.Stored{Outcome: deferred.Outcome(r.int()), Bound: deferred.Bound(r.int()), Durability: q.durability(), Scope: deferred.ScopeShared}
	s.ID, _ = r.id()
	s.State, s.Position = deferred.State(r.int()), int(r.int())
	if due := r.value(); due != "" {
		after := reader{[]any{due}}
		s.Due = o.now.Add(time.Duration(after.int()) * time.Microsecond)
	}
	s.Expires = r.time()
	if s.Outcome == deferred.Unstored {
		return deferred.Stored{Outcome: deferred.Unstored, Err: deferred.ErrTaken}
	}
	return s
}

// failed tells those who wait that nothing was written, or that it is not known. Settlements
// are kept.
func (q *Queue) failed(p *part) {
	f := q.faultOf(p.err)
	var puts []*op
	q.mu.Lock()
	closed := q.closed
	for _, o := range p.ops {
		if o.put == nil {
			q.pending = append(q.pending, o)
			q.bytes += o.bytes
			continue
		}
		puts = append(puts, o)
		if f.code == "" && !errors.Is(p.err, errLate) && len(q.doubtful) < doubtfulMax {
			q.doubtful = append(q.doubtful, o.put.Entry.ID)
		}
	}
	q.mu.Unlock()
	var why error = f
	if closed {
		why = p.err
	} else {
		q.broken(f)
	}
	for _, o := range puts {
		o.put.Done(deferred.Stored{Outcome: deferred.Unstored, Err: why})
	}
}

// giveUp answers what is pending when the queue is closed.
func (q *Queue) giveUp() {
	q.mu.Lock()
	left := q.pending
	q.pending, q.bytes = nil, 0
	q.mu.Unlock()
	for _, o := range left {
		switch {
		case o.put != nil:
			o.put.Done(deferred.Stored{Outcome: deferred.Unstored, Err: deferred.ErrClosed})
		case o.settle.Done != nil:
			o.settle.Done(deferred.ErrClosed)
		}
	}
	if q.unclaimed() {
		back, _ := q.newClaim(q.now(), 0, "0")
		q.ask(q.ctx, back)
	}
}

// probe finds out whether the server stores.
func (q *Queue) probe() error {
	a := &ask{script: q.scripts.put, args: q.putHead(), writes: true}
	q.ask(q.ctx, a)
	return a.err
}

// retry tries a server that has failed. When it answers again, what it may have been given is
// taken out that was answered Unstored.
func (q *Queue) retry() {
	q.mu.Lock()
	was, doubtful := q.fault, q.doubtful
	q.mu.Unlock()
	if was == nil || q.isClosed() {
		return
	}
	if err := q.probe(); err != nil {
		q.broken(q.faultOf(err))
		return
	}
	if err := q.withdraw(doubtful); err != nil {
		return
	}
	q.mu.Lock()
	q.fault, q.doubtful = nil, nil
	q.ring()
	q.mu.Unlock()
	q.log.Info("Queue writes again")
	q.look(q.ctx)
	q.readSettings(q.ctx)
}

// withdraw takes entries out that nobody has claimed.
func (q *Queue) withdraw(ids []deferred.ID) error {
	taken := 0
	for len(ids) > 0 {
		some := ids[:min(len(ids), callMax)]
		ids = ids[len(some):]
		results, err := q.edit(q.ctx, q.now(), editWithdraw, some)
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
		q.log.Warn("Requests that were refused are delivered: Redis had stored them and could not say so", "requests", taken)
	}
	return nil
}
