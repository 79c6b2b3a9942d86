package postgres

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"weir/proxy/deferred"
	"weir/proxy/store/postgres"
)

// busyPause is the time until the next claim if lines were locked.
const busyPause = 2 * time.Millisecond

// A claim is the result of one call of deferred_claim_3.
type claim struct {
	claimed []deferred.ClaimedEntry
	next    time.Time
	err     error
}

// Claim implements deferred.Queue.
func (q *Queue) Claim(ctx context.Context, now time.Time, n int, except ...string) ([]deferred.ClaimedEntry, time.Time,
	error) {
	if err := q.puts.Err(); err != nil {
		return nil, now.Add(lookEvery), err
	}
	if next := q.nothingBefore(except); now.Before(next) && next.Sub(now) <= lookEvery || n < 1 {
		return nil, next, nil
	}
	answered := make(chan claim)
	if !q.begins(func() {
		c := q.claim(now, n, except)
		select {
		case answered <- c:
		case <-ctx.Done(): // the caller has left
			for _, one := range c.claimed {
				q.Settle(now, &deferred.Settlement{Lease: one.Lease, To: deferred.Waiting, Due: one.Entry.Due})
			}
		}
	}) {
		return nil, now.Add(lookEvery), deferred.ErrClosed
	}
	select {
	case c := <-answered:
		return c.claimed, c.next, c.err
	case <-ctx.Done():
		return nil, now.Add(lookEvery), ctx.Err()
	}
}

// begins runs a function that Close waits for, unless the queue is closed.
func (q *Queue) begins(run func()) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.puts.Closed() {
		return false
	}
	q.claiming.Go(run)
	return true
}

// nothingBefore returns when the server has to be asked: at once if the exceptions differ from
// those of the last claim.
func (q *Queue) nothingBefore(except []string) time.Time {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !slices.Equal(q.except, except) {
		q.except = slices.Clone(except)
		return time.Time{}
	}
	return time.UnixMicro(q.wakeAt.Load())
}

// claim asks the server for entries that are due.
func (q *Queue) claim(now time.Time, n int, except []string) claim {
	q.wakeAt.Store(math.MaxInt64) // later puts lower it
	mends := q.mendedTimes()
	f, instant, err := q.claims(now, n, except)
	if err != nil {
		q.wakeAt.Store(math.MinInt64)
		return claim{next: now.Add(lookEvery), err: q.failed(err, mends)}
	}
	c := claim{next: now.Add(lookEvery)}
	if us := f.Int8(); us != 0 {
		if next := q.clock.here(us); next.Before(c.next) {
			c.next = next
		}
	}
	records := f.Records()
	q.gone(f.Records())
	if err := q.learn(f); err != nil {
		return claim{next: now.Add(lookEvery), err: err}
	}
	var broken []damaged
	for _, record := range records {
		r, _, err := readRow(record)
		if err != nil {
			return claim{next: now.Add(lookEvery), err: err}
		}
		one, err := q.claimed(now, instant, &r)
		if err == nil {
			c.claimed = append(c.claimed, one)
		} else {
			broken = append(broken, damaged{one, r.seq, err})
		}
	}
	if broken != nil {
		q.giveUp(now, broken)
	}
	q.evict(now)
	if !c.next.After(now) {
		c.next = now.Add(busyPause)
	}
	q.soon(c.next.UnixMicro())
	return c
}

// evict deletes the oldest final entries of clients that have too many, every lookEvery: a part of
// them if there are very many.
func (q *Queue) evict(now time.Time) {
	q.mu.Lock()
	due := now.Sub(q.evicted).Abs() >= lookEvery
	if due {
		q.evicted = now
	}
	q.mu.Unlock()
	if !due {
		return
	}
	mends := q.mendedTimes()
	ctx, cancel := context.WithTimeout(q.ctx, q.cfg.silence)
	defer cancel()
	args := new(postgres.Args).Int8(q.at(now)).Int8(q.slot + 2).Int8(q.cfg.Limits.FinalBytesMax())
	f, _, err := q.write(ctx, "deferred_evict_1", args)
	n := int64(0)
	if err == nil {
		if n = f.Int8(); n > 0 {
			err = q.learn(f)
		}
	}
	if err != nil {
		_ = q.failed(err, mends) // recorded; it is done again
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.stats.Evicted += uint64(n)
}

// gone counts entries whose state a claim has set to unknown.
func (q *Queue) gone(rules []*postgres.Fields) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, r := range rules {
		loss := deferred.GivenUpLabels{Rule: string(r.Bytes()), To: deferred.State(r.Int8())}
		q.stats.GivenUp[loss] += uint64(r.Int8())
	}
}

func (q *Queue) claims(now time.Time, n int, except []string) (f *postgres.Fields, instant int64, err error) {
	ctx, cancel := context.WithTimeout(q.ctx, q.cfg.silence)
	defer cancel()
	token := rand.Int64() | 1 // of all that is claimed
	deadline := int64(0)
	if !q.cfg.callersClock {
		deadline = q.clock.deadline(time.Now().Add(q.cfg.silence))
	}
	f, instant, err = q.write(ctx, "deferred_claim_3",
		new(postgres.Args).Int8(q.at(now)).Int8(deadline).Int8(q.slot+2).Bytes(q.mode).Int8(int64(n)).
			Int8(deferred.LeaseDuration.Microseconds()).Int8(q.cfg.Limits.DeadKeep.Microseconds()).Int8(token).Int8s(
			q.lostTokens(now)).Texts(except))
	if err != nil && !postgres.HadNoEffect(err) {
		q.mu.Lock()
		defer q.mu.Unlock()
		if len(q.lost) < lostMax {
			q.lost = append(q.lost, lostClaim{token, now})
		}
	}
	return f, instant, err
}

// A lostClaim is a claim without an answer. Its entries were not delivered, so they are returned to
// their lines. Its token is passed repeatedly, until the claim can no longer be executed, because it
// may be executed after the next one.
type lostClaim struct {
	token int64
	at    time.Time
}

// lostMax bounds the claims that are noted. The leases of further claims expire.
const lostMax = 64

// lostTokens returns those of the last lease time; the clock may have been set back.
func (q *Queue) lostTokens(now time.Time) (tokens []int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.lost = slices.DeleteFunc(q.lost, func(c lostClaim) bool { return now.Sub(c.at).Abs() > deferred.LeaseDuration })
	for _, c := range q.lost {
		tokens = append(tokens, c.token)
	}
	return tokens
}

// claimed decodes a claimed row. If it cannot be read, an error is returned together with the
// parts that could.
func (q *Queue) claimed(now time.Time, instant int64, r *row) (deferred.ClaimedEntry, error) {
	e, err := q.entry(r)
	switch {
	case err == nil && len(r.request) == 0:
		err = deferred.ErrDamaged
	case err == nil && r.expires <= instant && e.Expires.After(now):
		e.Expires = now // the server's clock counts
	}
	return deferred.ClaimedEntry{Lease: deferred.Lease{ID: r.id, Token: uint64(r.token)}, Entry: e}, err
}

// A damaged is a claimed entry that cannot be read.
type damaged struct {
	deferred.ClaimedEntry // without the Entry if nothing of it can be read
	seq                   int64
	reason                error
}

// giveUp settles entries that cannot be read as failed. Meanwhile the leases of entries claimed
// with them pass, so looking up rules takes at most as long as one statement may, and ends at the
// first error.
func (q *Queue) giveUp(now time.Time, broken []damaged) {
	ctx, cancel := context.WithTimeout(q.ctx, q.cfg.silence)
	defer cancel()
	rules, fault := q.Stats().Rules, error(nil)
	for _, d := range broken {
		loss := deferred.GivenUpLabels{To: deferred.Failed}
		if d.Entry != nil {
			loss.Rule = d.Entry.Rule
		} else if fault == nil {
			loss.Rule, fault = q.ruleOf(ctx, rules, &d)
		}
		q.mu.Lock()
		q.stats.Unreadable++
		q.stats.GivenUp[loss]++
		q.mu.Unlock()
		q.log.Warn("An entry that cannot be read was given up", "id", d.Lease.ID, "reason", d.reason)
		q.Settle(now, &deferred.Settlement{Lease: d.Lease, To: deferred.Failed, Keep: q.cfg.Limits.DeadKeep,
			Last: deferred.LastAttempt{At: now, Error: "the request cannot be read from the database"}})
	}
}

// ruleOf returns the rule of an entry that cannot be decoded, by searching the entries that are
// being delivered of each rule.
func (q *Queue) ruleOf(ctx context.Context, rules []deferred.RuleStats, d *damaged) (string, error) {
	for _, s := range rules {
		if s.States[deferred.Delivering].Entries == 0 {
			continue
		}
		f, err := q.list(ctx, deferred.Query{Rule: s.Rule, State: deferred.Delivering, Limit: 1}, uint64(d.seq-1))
		if err != nil {
			return "", err
		}
		for _, record := range f.Records() {
			if found, _, err := readRow(record); err == nil && found.id == d.Lease.ID {
				return s.Rule, nil
			}
		}
	}
	return "", nil
}

// Renew implements deferred.Queue.
func (q *Queue) Renew(ctx context.Context, now time.Time, leases []deferred.Lease) (lost []deferred.Lease, err error) {
	if err := q.puts.Err(); err != nil {
		return nil, err
	}
	var ids []postgres.UUID
	var tokens []int64
	for _, l := range leases {
		ids, tokens = append(ids, postgres.UUID(l.ID)), append(tokens, int64(l.Token))
	}
	mends := q.mendedTimes()
	f, _, err := q.write(ctx, "deferred_renew_1",
		new(postgres.Args).Int8(q.at(now)).Int8(deferred.LeaseDuration.Microseconds()).UUIDs(ids).Int8s(tokens))
	if err != nil {
		if ctx.Err() == nil {
			err = q.failed(err, mends)
		}
		return nil, err
	}
	held := f.Int8s()
	if len(held) != len(leases) {
		return nil, errors.Join(errAnswer, f.Err)
	}
	for i, l := range leases {
		if held[i] == 0 {
			lost = append(lost, l)
		}
	}
	return lost, nil
}
