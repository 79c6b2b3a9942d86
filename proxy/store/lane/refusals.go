package lane

import (
	"time"

	"weir/proxy/limit"
	"weir/proxy/store"
)

// A refusal is the remembered answer to a refused group.
type refusal struct {
	until     time.Time // the time to retry, counted from when the batch was sent
	landed    time.Time // when the answer arrived: times in decisions count from here
	decisions []limit.Decision
	tightest  int
	spare     bool // the ask was one of store.GiveBack
}

// refusals remembers refused groups until their time to retry. Limits and costs are part of a
// group's id, so a raised limit is asked about at once. All refusals are forgotten in a new
// epoch. At the bound those that are expired or spare are removed; if there are none, new
// refusals are not remembered.
//
// Owned by its lane.
type refusals struct {
	max   int
	epoch uint64
	byID  map[string]refusal
	swept time.Time // when refusals were last removed at the bound
}

// sweepPause is the shortest time between two removals.
const sweepPause = 100 * time.Millisecond

// answer answers for a group with a remembered refusal, and reports whether there is one.
func (r *refusals) answer(now time.Time, epoch uint64, id []byte, ans *store.Answer) bool {
	if r.renew(epoch); len(r.byID) == 0 {
		return false
	}
	known, ok := r.byID[string(id)]
	if !ok {
		return false
	}
	if !now.Before(known.until) {
		delete(r.byID, string(id))
		return false
	}
	*ans = store.Answer{Decisions: ans.Decisions[:0], Tightest: known.tightest, Mode: store.Cached}
	past := max(0, now.Sub(known.landed))
	for _, d := range known.decisions {
		if d.RetryAfter != limit.Never {
			d.RetryAfter = max(0, d.RetryAfter-past)
		}
		d.ResetAfter = max(0, d.ResetAfter-past)
		ans.Decisions = append(ans.Decisions, d)
	}
	return true
}

// renew forgets refusals of another epoch.
func (r *refusals) renew(epoch uint64) {
	if r.epoch != epoch {
		clear(r.byID)
		r.epoch = epoch
	}
}

// remember keeps the refusals of a batch that has landed, if it was sent in this epoch.
func (r *refusals) remember(now time.Time, epoch uint64, b *batch) {
	r.renew(epoch)
	if r.max <= 0 || b.epoch != epoch {
		return
	}
	if r.byID == nil {
		r.byID = make(map[string]refusal)
	}
	for _, g := range b.groups {
		if g.Err == nil && g.Granted < g.N {
			r.note(now, b, g)
		}
	}
}

// note keeps the refusal of a group, if it was refused.
func (r *refusals) note(now time.Time, b *batch, g *group) {
	var ans store.Answer
	g.answer(1, false, &ans)
	wait := ans.Decision().RetryAfter
	if ans.Granted > 0 || wait == limit.Never || !now.Before(b.sent.Add(wait)) || !r.room(now) {
		return
	}
	r.byID[g.id] = refusal{until: b.sent.Add(wait), landed: b.landed, decisions: ans.Decisions, tightest: ans.Tightest, spare: store.GivesBack(g.Counters)}
}

func (r *refusals) room(now time.Time) bool {
	if len(r.byID) < r.max {
		return true
	}
	if now.Sub(r.swept) < sweepPause {
		return false
	}
	r.swept = now
	for id, known := range r.byID {
		if known.spare || !now.Before(known.until) {
			delete(r.byID, id)
		}
	}
	return len(r.byID) < r.max
}
