package sessiontest

import (
	"slices"
	"strconv"
	"time"

	"weir/internal/net/loop/looptest"
	"weir/proxy/http/exchange"
	"weir/proxy/limit"
	"weir/proxy/rules/decide"
	"weir/proxy/store"
)

// policies are the limits that are swapped: small ones, so that some refuse.
var policies = []limit.Config{
	{Algorithm: limit.Token, Capacity: 5, FillRate: 10},
	{Algorithm: limit.Fixed, Limit: 10, Window: 1},
	{Algorithm: limit.Sliding, Limit: 25, Window: 1},
	{Algorithm: limit.Token, Capacity: 1000, FillRate: 1000},
	{Algorithm: limit.Off},
}

// swap puts another limit in force.
func (w *world) swap() {
	l, err := limit.New(policies[w.IntN(len(policies))])
	if err != nil {
		panic(err)
	}
	w.swapRules(l)
}

// ask is the session's Env.Ask.
func (w *world) ask(now time.Time, x *exchange.Exchange, ask *store.Ask, ans *store.Answer) bool {
	f := x.Owner.(*front)
	r := f.caller.nextAsked()
	switch {
	case f.away || f.ended:
		f.wrong("the limiter is asked for a client that is gone")
	case f.asked != nil:
		f.wrong("the limiter is asked while request %d has no outcome", f.asked.id)
	case r == nil:
		f.wrong("the limiter is asked more often than there are requests")
	case r.never:
		f.wrong("the limiter is asked for %d, which is no request", r.id)
	}
	if r == nil || w.err != nil {
		r = &request{}
	}
	f.asked = r
	f.log.Note(now, "ask for request", int64(r.id), "")
	if !w.odds(w.profile.later) {
		f.answer(now, r, ask, ans)
		return true
	}
	f.deciding = true
	copied := store.Ask{N: ask.N, Counters: slices.Clone(ask.Counters)}
	w.After(w.Within(w.profile.lateness), func() {
		f.deciding = false
		if f.away {
			return
		}
		var late store.Answer
		f.answer(w.Now, r, &copied, &late)
		f.s.Exchange.HandleAnswer(w.Now, &late)
		f.apply()
		for i := range late.Decisions {
			late.Decisions[i] = limit.Decision{Limit: -1, Remaining: -1}
		}
	})
	return false
}

// answer decides, or makes the store unavailable.
func (f *front) answer(now time.Time, r *request, ask *store.Ask, ans *store.Answer) {
	w := f.w
	r.decisions++
	switch {
	case w.fault(w.profile.storeAway):
		*ans = store.Answer{Granted: w.IntN(2), Mode: store.FailOpen}
		if ans.Granted == 0 {
			ans.Mode = store.Closed
		}
	default:
		w.table.Take(now, ask, ans)
	}
	r.allowed, r.storeAway = ans.Granted > 0, ans.Mode == store.Closed
	if r.allowed {
		w.saw("requests allowed")
	} else {
		w.saw("requests refused")
	}
	f.log.Note(now, "limiter grants", int64(ans.Granted), ans.Mode.String())
}

// report handles the outcome of a request.
func (f *front) report(o *exchange.Outcome) {
	w := f.w
	f.log.Note(w.Now, "report of status", int64(o.Status), o.Fault.String())
	f.learn(o)
	f.collects, f.returns = 0, 0
	f.tunnels = o.Status == 101
	if o.Status > 0 {
		w.tally.Statuses[o.Status]++
	}
	// Fewer bytes may be an incomplete chunk line.
	if o.Status == 408 && f.asked != nil && f.conn.Unread() > 256 && !f.conn.Blocked() && !f.conn.Ended() {
		f.wrong("408 while %d bytes of the client wait unread", f.conn.Unread())
	}
	if o.Decision == exchange.Undecided {
		if f.asked != nil {
			f.wrong("the outcome of request %d says nothing of its decision", f.asked.id)
		}
		return
	}
	r := f.asked
	if r == nil {
		f.wrong("an outcome without a decision, or the second one")
		return
	}
	f.asked = nil
	r.outcomes++
	f.reportDeferred(r, o)
	if allowed := o.Decision == exchange.Forwarded; allowed != r.allowed {
		f.wrong("request %d: allowed %t, reported as %t", r.id, r.allowed, allowed)
	}
	if o.Retried && !r.replayed && f.tried.Count() < 2 {
		f.wrong("request %d is reported as retried", r.id)
	}
}

// refused returns a decision id for a refusal.
func (w *world) refused(now time.Time, r *decide.Refusal) []byte {
	looptest.Poison(w.refusal)
	w.refusal = strconv.AppendInt(append(w.refusal[:0], "d-"...), int64(w.Serial()), 10)
	return w.refusal
}
