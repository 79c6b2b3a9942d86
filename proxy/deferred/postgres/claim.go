package postgres

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"sync"
	"time"

	"weir/proxy/deferred"
	"weir/proxy/store/postgres"
)

// busyPause is after what time to claim again when lines were locked.
const busyPause = 2 * time.Millisecond

// A claim is what one call of deferred_claim_1 has brought.
type claim struct {
	claimed []deferred.Claimed
	next    time.Time
	err     error
}

// Claim is part of deferred.Queue.
func (q *Queue) Claim(ctx context.Context, now time.Time, n int, except ...string) ([]deferred.Claimed, time.Time, error) {
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
		case <-ctx.Done(): // nobody wants them any more
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
	q.running.Go(run)
	return true
}

// nothingBefore is when the server has to be asked, which does not know of these exceptions yet
// if they are others than the last ones.
func (q *Queue) nothingBefore(except []string) time.Time {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !slices.Equal(q.except, except) {
		q.except = slices.Clone(except)
		return time.Time{}
	}
	return time.UnixMicro(q.wakeAt.Load())
}

// claim asks the server for what is due.
func (q *Queue) claim(now time.Time, n int, except []string) claim {
	q.wakeAt.Store(math.MaxInt64) // what is put from now on lowers it
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
	for _, record := range f.Records() {
		r, _, err := readRow(record)
		if err != nil {
			return claim{next: now.Add(lookEvery), err: err}
		}
		if one, ok := q.claimed(now, instant, &r); ok {
			c.claimed = append(c.claimed, one)
		}
	}
	if err := q.learn(f); err != nil {
		return claim{next: now.Add(lookEvery), err: err}
	}
	if !c.next.After(now) {
		c.next = now.Add(busyPause)
	}
	q.soon(c.next.UnixMicro())
	return c
}

func (q *Queue) claims(now time.Time, n int, except []string) (f *postgres.Fields, instant int64, err error) {
	ctx, cancel := context.WithTimeout(q.ctx, q.cfg.silence)
	defer cancel()
	var random [8]byte
	_, _ = rand.Read(random[:])                               // never fails
	token := int64(binary.BigEndian.Uint64(random[:])>>1 | 1) // of all that is claimed
	deadline := int64(0)
	if !q.cfg.told {
		deadline = q.clock.deadline(time.Now().Add(q.cfg.silence))
	}
	f, instant, err = q.write(ctx, "deferred_claim_2", new(postgres.Args).Int8(q.at(now)).Int8(deadline).Int8(q.slot+2).Bytes(q.mode).Int8(int64(n)).
		Int8(deferred.LeaseFor.Microseconds()).Int8(q.cfg.Limits.DeadKeep.Microseconds()).Int8(token).Int8s(q.lost.tokens(now)).Texts(except))
	if err != nil && !postgres.Certain(err) {
		q.lost.add(now, token)
	}
	return f, instant, err
}

// A lostClaims has the tokens of claims whose answers did not come. Nobody has sent what these
// have claimed, so it goes back to its line. Tokens are told until no such claim can be carried
// out any more, as one may be so after the next.
//
// Safe for concurrent use: mu guards all.
type lostClaims struct {
	mu    sync.Mutex
	known []lostClaim
}

type lostClaim struct {
	token int64
	at    time.Time
}

// lostMax bounds the claims that are noted. The leases of others pass.
const lostMax = 64

func (l *lostClaims) add(now time.Time, token int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.known) < lostMax {
		l.known = append(l.known, lostClaim{token, now})
	}
}

// tokens are those of the time of a lease; the clock may have been set back.
func (l *lostClaims) tokens(now time.Time) (tokens []int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.known = slices.DeleteFunc(l.known, func(c lostClaim) bool { return now.Sub(c.at).Abs() > deferred.LeaseFor })
	for _, c := range l.known {
		tokens = append(tokens, c.token)
	}
	return tokens
}

// claimed is a row that was claimed. One that cannot be read is given up, and ok is false.
func (q *Queue) claimed(now time.Time, instant int64, r *row) (c deferred.Claimed, ok bool) {
	lease := deferred.Lease{ID: r.id, Token: uint64(r.token)}
	e, err := q.entry(r)
	if err == nil && len(r.request) == 0 {
		err = deferred.ErrDamaged
	}
	if err != nil {
		q.mu.Lock()
		q.stats.Unreadable++
		q.mu.Unlock()
		q.log.Warn("Gave an entry up that cannot be read", "id", r.id, "reason", err)
		q.Settle(now, &deferred.Settlement{Lease: lease, To: deferred.Failed, Keep: q.cfg.Limits.DeadKeep,
			Last: deferred.Last{At: now, Error: "the request cannot be read from the database"}})
		return c, false
	}
	if r.expires <= instant && e.Expires.After(now) {
		e.Expires = now // the server's clock counts
	}
	return deferred.Claimed{Lease: lease, Entry: e}, true
}

// Renew is part of deferred.Queue.
func (q *Queue) Renew(ctx context.Context, now time.Time, leases []deferred.Lease) (lost []deferred.Lease, err error) {
	if err := q.puts.Err(); err != nil {
		return nil, err
	}
	var ids []postgres.Place
	var tokens []int64
	for _, l := range leases {
		ids, tokens = append(ids, postgres.Place(l.ID)), append(tokens, int64(l.Token))
	}
	mends := q.mendedTimes()
	f, _, err := q.write(ctx, "deferred_renew_1", new(postgres.Args).Int8(q.at(now)).Int8(deferred.LeaseFor.Microseconds()).Places(ids).Int8s(tokens))
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
