package redis

import (
	"context"
	"math/rand/v2"
	"strconv"
	"time"

	"weir/proxy/deferred"
)

const (
	// claimMax and claimBytesMax bound one claim, during which Redis runs no other commands.
	claimMax      = 64
	claimBytesMax = 4 << 20
	// lostMax bounds the claims that are to be given back. Entries of further claims return when
	// their leases expire.
	lostMax = 64
)

// Claim implements deferred.Queue. It claims at most 64 entries in one call.
func (q *Queue) Claim(ctx context.Context, now time.Time, n int, except ...string) ([]deferred.ClaimedEntry, time.Time,
	error) {
	if err := q.unavailable(); err != nil {
		return nil, now.Add(retryEvery), err
	}
	if next, rests := q.figures.rest(now); (rests || n < 1) && !q.unclaimed() {
		return nil, next, nil
	}
	token := rand.Uint64() | 1
	a, given := q.newClaim(now, min(n, claimMax), strconv.FormatUint(token, 10))
	a.args = append(a.args, except...)
	if _, err := q.do(ctx, a); err != nil {
		q.missed(append(given, strconv.FormatUint(token, 10))...)
		return nil, now.Add(retryEvery), err
	}
	answer := reader{list(a.answer.result)}
	next := now.Add(lookEvery)
	if at := answer.int(); at > 0 && time.Duration(at-a.answer.now)*time.Microsecond < lookEvery {
		next = now.Add(time.Duration(at-a.answer.now) * time.Microsecond)
	}
	entries := list(answer.value())
	q.gone(list(answer.value()))
	var claimed []deferred.ClaimedEntry
	for _, v := range entries {
		r := reader{list(v)}
		id := r.id()
		lease := deferred.Lease{ID: id, Token: token}
		expired := r.text() == "1"
		e, err := q.codec.entry(id, r.value())
		if err != nil {
			q.setAside(now, lease, r.text(), err)
			continue
		}
		if expired && e.Expires.After(now) { // by the server's clock
			e.Expires = now
		}
		e.State = deferred.Delivering
		claimed = append(claimed, deferred.ClaimedEntry{Lease: lease, Entry: e})
	}
	return claimed, next, nil
}

// newClaim returns a call that claims n entries and gives back those of claims without an
// answer. It also returns the tokens of these claims, which are missed again if the call fails.
func (q *Queue) newClaim(now time.Time, n int, token string) (claim *ask, given []string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	given, q.lost = q.lost, nil
	args := []string{decimal(max(0, n)), decimal(claimBytesMax), token, decimal(deferred.UnixMicros(now)),
		decimal(q.cfg.Limits.DeadKeep.Microseconds()),
		decimal(q.cfg.Limits.FinalBytesMax()), decimal(len(given))}
	return &ask{script: q.scripts.claim, args: append(args, given...), until: true, writes: true}, given
}

// missed notes claims that were not answered.
func (q *Queue) missed(tokens ...string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.lost = append(q.lost, tokens[:min(len(tokens), lostMax-len(q.lost))]...)
}

// unclaimed reports whether there are claims to be given back.
func (q *Queue) unclaimed() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.lost) > 0
}

// gone counts, by rule, entries whose state a claim has set to unknown.
func (q *Queue) gone(rules []any) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for r := (reader{rules}); len(r.left) > 0; {
		q.givenUp[deferred.GivenUpLabels{Rule: r.text(), To: deferred.Unknown}]++
	}
}

// setAside settles an entry that cannot be read as failed.
func (q *Queue) setAside(now time.Time, lease deferred.Lease, rule string, why error) {
	q.mu.Lock()
	q.damaged++
	q.givenUp[deferred.GivenUpLabels{Rule: rule, To: deferred.Failed}]++
	q.mu.Unlock()
	q.log.Warn("An entry cannot be read and is not delivered", "id", lease.ID, "reason", why)
	q.Settle(now, &deferred.Settlement{Lease: lease, To: deferred.Failed, Keep: q.cfg.Limits.DeadKeep,
		Last: deferred.LastAttempt{At: now, Error: "the request cannot be read from Redis"}})
}

// Renew implements deferred.Queue.
func (q *Queue) Renew(ctx context.Context, _ time.Time, leases []deferred.Lease) (lost []deferred.Lease, err error) {
	a := &ask{script: q.scripts.renew, writes: true}
	for _, l := range leases {
		a.args = append(a.args, string(l.ID[:]), strconv.FormatUint(l.Token, 10))
	}
	result, err := q.do(ctx, a)
	if err != nil {
		return nil, err
	}
	r := reader{list(result)}
	for _, l := range leases {
		if r.int() == 0 {
			lost = append(lost, l)
		}
	}
	return lost, nil
}

// Pause implements deferred.Queue.
func (q *Queue) Pause(ctx context.Context, rule string, paused bool) error {
	_, err := q.do(ctx, &ask{script: q.scripts.pause, args: []string{rule, bit(paused)}, writes: true})
	return err
}
