package lane

import (
	"slices"
	"time"

	"weir/proxy/limit"
	"weir/proxy/store"
)

// A refusal is the remembered answer to a refused group.
type refusal struct {
	until     time.Time // when the store is asked again
	landed    time.Time // when the answer arrived: times in decisions count from here
	decisions []limit.Decision
	tightest  int
	keys      []*refusing
	spare     bool // the ask was one of store.RefundUnsent
}

// ended reports whether the refusal must no longer be used.
func (r *refusal) ended(now time.Time) bool {
	for _, k := range r.keys {
		if k.charged {
			return true
		}
	}
	return !now.Before(r.until)
}

// A refusing is a key that has refused remembered groups. They end together when it is charged.
type refusing struct {
	name     string
	refusals int // that refer to it
	charged  bool
}

// refusals remembers refused groups. A remembered RetryAfter is true while the keys that refused
// are not charged. What this lane charges is known, and ends the memory. What other lanes and
// proxies charge is not, so a refusal is remembered for a share of its time to retry. Limits and
// costs are part of a group's id, so a raised limit is asked about at once. All refusals are
// forgotten in a new epoch. The refusal of an ask that is charged nevertheless is not remembered. At
// the bound those that have ended or are spare are removed; if there are none, new refusals are not
// remembered.
//
// Owned by its lane.
type refusals struct {
	max   int
	epoch uint64
	byID  map[string]refusal
	byKey map[string]*refusing // by store.AppendKey, of the refusals in byID
	name  []byte               // of a key
	swept time.Time            // when refusals were last removed at the bound
}

const (
	// sweepPause is the shortest time between two removals.
	sweepPause = 100 * time.Millisecond
	// memoryShare is the part of the time to retry for which a refusal is remembered: a tenth.
	memoryShare = 10
)

// answer answers for a group with a remembered refusal, and reports whether there is one.
func (r *refusals) answer(now time.Time, epoch uint64, id []byte, ans *store.Answer) bool {
	if r.renew(epoch); len(r.byID) == 0 {
		return false
	}
	known, ok := r.byID[string(id)]
	if !ok {
		return false
	}
	if known.ended(now) {
		r.remove(string(id), &known)
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

// remove forgets a refusal, and keys to which no other refers.
func (r *refusals) remove(id string, known *refusal) {
	delete(r.byID, id)
	for _, k := range known.keys {
		if k.refusals--; k.refusals == 0 && !k.charged {
			delete(r.byKey, k.name)
		}
	}
}

// renew forgets refusals of another epoch.
func (r *refusals) renew(epoch uint64) {
	if r.epoch != epoch {
		clear(r.byID)
		clear(r.byKey)
		r.epoch = epoch
	}
}

// remember keeps the refusals of a batch that has landed, if it was sent in this epoch. The groups
// were decided in their order, so a charge ends refusals of earlier ones.
func (r *refusals) remember(now time.Time, epoch uint64, b *batch) {
	r.renew(epoch)
	if r.max <= 0 {
		return
	}
	for _, g := range b.groups {
		if len(r.byKey) > 0 {
			r.charged(g)
		}
		if g.Err == nil && g.Granted < g.N && b.epoch == epoch && !slices.ContainsFunc(g.Counters, late) {
			r.note(now, b, g)
		}
	}
}

// late reports whether a counter is charged even if its ask is refused.
func late(c store.Counter) bool { return c.Debt > 0 && c.Cost > 0 }

// charged ends the refusals by keys that are charged, or, after an error, may be.
func (r *refusals) charged(g *group) {
	for i := range g.Counters {
		c := &g.Counters[i]
		if c.Cost == 0 || c.Limit.Algorithm() == limit.Off || g.Err == nil && g.Granted == 0 && c.Debt == 0 {
			continue
		}
		r.name = store.AppendKey(r.name[:0], c.Rule, c.Key)
		if k := r.byKey[string(r.name)]; k != nil {
			k.charged = true
			delete(r.byKey, string(r.name))
		}
	}
}

// note keeps the refusal of a group, if it was refused.
func (r *refusals) note(now time.Time, b *batch, g *group) {
	var ans store.Answer
	g.answer(1, false, &ans)
	wait := ans.Decision().RetryAfter
	until := b.sent.Add(wait / memoryShare)
	if ans.Granted > 0 || wait == limit.Never || !now.Before(until) || !r.room(now) {
		return
	}
	if r.byID == nil {
		r.byID, r.byKey = make(map[string]refusal), make(map[string]*refusing)
	}
	if old, ok := r.byID[g.id]; ok {
		r.remove(g.id, &old)
	}
	known := refusal{until: until, landed: b.landed, decisions: ans.Decisions, tightest: ans.Tightest,
		spare: store.LimitsRefunds(g.Counters)}
	for i := range g.Counters {
		if c := &g.Counters[i]; !ans.Decisions[i].Allowed {
			known.keys = append(known.keys, r.refusing(c))
		}
	}
	r.byID[g.id] = known
}

// refusing returns the entry of a counter's key for another refusal.
func (r *refusals) refusing(c *store.Counter) *refusing {
	r.name = store.AppendKey(r.name[:0], c.Rule, c.Key)
	k := r.byKey[string(r.name)]
	if k == nil {
		k = &refusing{name: string(r.name)}
		r.byKey[k.name] = k
	}
	k.refusals++
	return k
}

// room reports whether there is room for another refusal.
func (r *refusals) room(now time.Time) bool {
	if len(r.byID) < r.max {
		return true
	}
	if now.Sub(r.swept) < sweepPause {
		return false
	}
	r.swept = now
	for id, known := range r.byID {
		if known.spare || known.ended(now) {
			r.remove(id, &known)
		}
	}
	return len(r.byID) < r.max
}
