package postgres

import (
	"errors"
	"slices"
	"time"

	"weir/proxy/deferred"
	"weir/proxy/store/postgres"
)

// A settling is a Settlement to be written.
type settling struct {
	*deferred.Settlement
	now   time.Time
	again bool // it may have been written already
	ended bool
}

// Settle implements deferred.Queue.
func (q *Queue) Settle(now time.Time, s *deferred.Settlement) {
	s.Check()
	// Their number is bounded by that of claims.
	o := &settling{Settlement: s, now: now}
	if err := q.settles.Add(o, 0); err != nil {
		o.end(err)
	}
}

func (s *settling) end(err error) {
	if s.ended = true; s.Done != nil {
		s.Done(err)
	}
}

// keepSettling writes settlements in groups until the queue is closed. Settlements that cannot be
// written are kept.
func (q *Queue) keepSettling() {
	var all []*settling
	for closed := false; !closed; {
		<-q.settles.Wake()
		closed = q.settles.Closed()
		all = append(all, q.settles.All()...)
		for len(all) > 0 {
			group, rest := distinct(all)
			if !q.settle(group) { // when the server answers again, the box is rung
				all = slices.DeleteFunc(all, func(s *settling) bool { return s.ended })
				break
			}
			all = rest
		}
	}
	for _, s := range all {
		s.end(deferred.ErrClosed)
	}
}

// distinct returns settlements of different entries, and the remaining ones.
func distinct(all []*settling) (group, rest []*settling) {
	seen := make(map[deferred.ID]bool)
	bytes := 0
	for _, s := range all {
		if seen[s.Lease.ID] || len(group) == groupMax || bytes > groupBytesMax {
			rest = append(rest, s)
			continue
		}
		seen[s.Lease.ID] = true
		bytes += int(s.Result.Size())
		group = append(group, s)
	}
	return group, rest
}

// settle writes a group, and reports whether the group is finished.
func (q *Queue) settle(group []*settling) bool {
	mends := q.mendedTimes()
	if q.puts.Failure() != nil {
		return false
	}
	held, err := q.settled(group)
	if err == nil {
		q.soon(0)
		for i, s := range group {
			if held[i] == 1 || held[i] == 2 && s.again {
				s.end(nil)
			} else {
				s.end(deferred.ErrLease)
			}
		}
		return true
	}
	if concernsOne(err) {
		if len(group) > 1 {
			return q.settle(group[:len(group)/2]) && q.settle(group[len(group)/2:])
		}
		q.log.Error("A delivery cannot be settled, and returns to its line when its lease expires", "id",
			group[0].Lease.ID, "reason", err)
		group[0].end(err)
		return true
	}
	for _, s := range group {
		s.again = s.again || !postgres.HadNoEffect(err)
	}
	_ = q.failed(err, mends)
	if q.puts.Err() == nil {
		q.settles.Notify() // try again
	}
	return false
}

// settled writes a group, and returns the result of deferred_settle_1 for each.
func (q *Queue) settled(group []*settling) (held []int64, err error) {
	var ids []postgres.UUID
	var tokens, numbers []int64
	var lasts, results, answers [][]byte
	for _, s := range group {
		id := s.Lease.ID
		var last, result, answer []byte
		lastSize, answerSize := int64(-1), int64(-1)
		if s.Last != (deferred.LastAttempt{}) {
			last, lastSize = q.last(id, s.Last), int64(len(s.Last.Error))
		}
		if r := s.Result; r != nil {
			result, answer, answerSize = q.result(id, r.Brief()), q.result(id, r), r.Size()
		}
		ids, tokens = append(ids, postgres.UUID(id)), append(tokens, int64(s.Lease.Token))
		numbers = append(numbers, int64(s.To), q.clock.there(s.Due), bit(s.Attempt), lastSize, answerSize,
			s.Keep.Microseconds())
		lasts, results, answers = append(lasts, last), append(results, result), append(answers, answer)
	}
	f, err := q.insist(q.ctx, "deferred_settle_1",
		new(postgres.Args).Int8(q.at(group[len(group)-1].now)).Int8(q.slot+1).UUIDs(ids).Int8s(tokens).
			Int8s(numbers).BytesList(lasts).BytesList(results).BytesList(answers))
	if err != nil {
		return nil, err
	}
	if held = f.Int8s(); len(held) != len(group) {
		return nil, errors.Join(errAnswer, f.Err)
	}
	return held, q.learn(f)
}
