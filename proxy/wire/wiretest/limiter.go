package wiretest

import (
	"slices"
	"time"

	"weir/proxy/http/exchange"
	"weir/proxy/limit"
	"weir/proxy/store"
	"weir/proxy/store/simredis"
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
func (w *World) swap() {
	l, err := limit.New(policies[w.IntN(len(policies))])
	if err != nil {
		panic(err)
	}
	w.swapRules(l)
}

// Asks notes that the limiter is asked about a request of the connection; the next ask of the Store
// is about it.
func (f *ClientView) Asks(closed bool) {
	r := f.caller.nextAsked()
	switch {
	case closed || f.ended:
		f.Wrong("the limiter is asked for a client that is gone")
	case f.asked != nil:
		f.Wrong("the limiter is asked while request %d has no outcome", f.asked.id)
	case r == nil:
		f.Wrong("the limiter is asked more often than there are requests")
	case r.never:
		f.Wrong("the limiter is asked for %d, which is no request", r.id)
	}
	if r == nil || f.w.err != nil {
		r = &request{}
	}
	f.asked, f.w.asking = r, f
	f.Log.Note(f.w.Now(), "ask for request", int64(r.id), "")
}

// A memory is a store in memory that answers at once or later, and is unavailable at times.
type memory struct {
	*simredis.Store
	w *World
}

// NewLane implements store.Store.
func (m *memory) NewLane(post func(func(now time.Time))) store.Lane {
	return &lane{Lane: m.Store.NewLane(post), w: m.w, post: post}
}

// A lane is a lane of a memory.
type lane struct {
	store.Lane
	w    *World
	post func(func(now time.Time))
}

// Ask implements store.Lane.
func (l *lane) Ask(now time.Time, ask *store.Ask, ans *store.Answer, done store.Done) bool {
	w, f := l.w, l.w.asking
	if w.asking = nil; f == nil { // see store.RefundUnsent
		w.Saw("requests given back")
		return l.Lane.Ask(now, ask, ans, done)
	}
	r := f.asked
	if !w.Odds(w.Profile.later) {
		l.answer(now, f, r, ask, ans)
		return true
	}
	f.deciding = true
	copied := store.Ask{N: ask.N, WantsPrior: ask.WantsPrior, Counters: slices.Clone(ask.Counters)}
	for i := range copied.Counters {
		copied.Counters[i].Key = slices.Clone(copied.Counters[i].Key)
	}
	w.After(w.Within(w.Profile.lateness), func() {
		l.post(func(now time.Time) {
			f.deciding = false
			var late store.Answer
			l.answer(now, f, r, &copied, &late)
			done(now, &late)
			for i := range late.Decisions {
				late.Decisions[i] = limit.Decision{Limit: -1, Remaining: -1}
			}
		})
	})
	return false
}

// answer decides, or is unavailable.
func (l *lane) answer(now time.Time, f *ClientView, r *request, ask *store.Ask, ans *store.Answer) {
	w := l.w
	if w.Fault(w.Profile.storeAway) {
		*ans = store.Answer{Granted: w.IntN(2), Mode: store.FailOpen}
		if ans.Granted == 0 {
			ans.Mode = store.Closed
		}
	} else {
		l.Lane.Ask(now, ask, ans, nil)
	}
	f.Log.Note(now, "limiter grants", int64(ans.Granted), ans.Mode.String())
	if f.away || f.ended { // it is not heard
		f.asked = nil
		return
	}
	r.decisions++
	r.allowed, r.storeAway = ans.Granted > 0, ans.Mode == store.Closed
	if r.allowed {
		w.Saw("requests allowed")
	} else {
		w.Saw("requests refused")
	}
}

// report handles the outcome of a request.
func (f *ClientView) report(o *exchange.Outcome) {
	w := f.w
	f.Log.Note(w.Now(), "report of status", int64(o.Status), o.Fault.String())
	f.tunnels = o.Status == 101
	if o.Status > 0 {
		w.Tally.Statuses[o.Status]++
	}
	if o.Decision == exchange.Undecided {
		if f.asked != nil {
			f.Wrong("the outcome of request %d says nothing of its decision", f.asked.id)
		}
		return
	}
	r := f.asked
	if r == nil {
		f.Wrong("an outcome without a decision, or the second one")
		return
	}
	f.asked, f.storing = nil, false
	r.outcomes++
	if kept := o.Decision == exchange.Deferred; kept != r.kept || o.Postponed != r.postponed {
		f.Wrong("request %d: stored %t, to be delivered later %t; reported as %t, %t", r.id, r.kept, r.postponed, kept,
			o.Postponed)
	}
	if allowed := o.Decision == exchange.Forwarded; allowed != r.allowed {
		f.Wrong("request %d: allowed %t, reported as %t", r.id, r.allowed, allowed)
	}
	if o.Retried && !f.again {
		f.Wrong("request %d is reported as retried", r.id)
	}
}
