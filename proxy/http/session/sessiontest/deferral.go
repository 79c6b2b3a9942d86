package sessiontest

import (
	"bytes"
	"errors"
	"strings"
	"time"

	"weir/proxy/deferred"
	"weir/proxy/http/exchange"
	"weir/proxy/limit"
	"weir/proxy/rules/decide"
	"weir/proxy/rules/rule"
)

// deferMax is the largest body of a request that is stored.
const deferMax = bufferMax / 2

// errAway is the error of a request that could not be stored.
var errAway = errors.New("the disk is full")

// deferring are rules whose refused requests are stored.
var deferring = parse("rules:\n- {id: later, match: {methods: [POST, PUT, PATCH, DELETE]}, limit: {algorithm: " +
	"fixed, limit: 3, window: 1}, defer: {when: always, for: 10}}\n" +
	"- {id: never, match: {methods: [DELETE]}, limit: {algorithm: fixed, limit: 2, window: 1}}\n")

func parse(text string) *rule.Set {
	set, err := rule.Read([]byte(text), rule.Options{Defers: true})
	if err != nil {
		panic(err)
	}
	return set
}

// swapRules puts the limit l in force, by chance together with rules whose refused requests
// are stored.
func (w *world) swapRules(l limit.Limit) {
	w.policy = decide.NewPolicy(l)
	if w.odds(w.profile.defers) {
		w.policy = w.policy.With(deferring, "1")
	}
}

// noteDecided records the decision about the current request.
func (f *front) noteDecided(d *decide.Decided) {
	if d == nil || f.asked == nil {
		return
	}
	if f.asked.postponed = d.Postponed; d.Postponed && (f.asked.allowed || f.asked.storeAway) {
		f.wrong("request %d is to be delivered later and was not refused", f.asked.id)
	}
}

// store stores a refused request in a queue that answers later, even if the client has disconnected.
func (f *front) store(k *exchange.DeferredRequest) {
	w, r := f.w, f.asked
	switch {
	case k == nil:
		return
	case f.away || f.ended:
		f.wrong("a request is stored for a client that is gone")
		return
	case r == nil || r.allowed || r.storeAway || f.storing:
		f.wrong("something is stored that was not refused, or twice")
		return
	case k.Rule.ID != "later" || !bytes.Equal(k.Body, w.up(r.id, 0, r.body)) || r.body > deferMax:
		f.wrong("request %d of %d bytes is stored by rule %s with %d bytes", r.id, r.body, k.Rule.ID, len(k.Body))
	case string(k.MethodText()) != r.method || !strings.Contains(string(k.Fields()), "X-Req: "+itoa(int(r.id))+"\r\n"):
		f.wrong("request %d is stored as %q %q", r.id, k.MethodText(), k.Fields())
	}
	f.log.Note(w.Now, "store request", int64(r.id), "")
	f.storing = true
	if w.fault(w.profile.callerFaults) {
		w.After(w.Within(w.profile.lateness), f.caller.leave)
	}
	w.After(w.Within(w.profile.lateness), func() {
		s := w.stored()
		r.kept = s.Outcome == deferred.Accepted
		f.storing = false
		f.log.Note(w.Now, "stored", int64(r.id), s.Outcome.String())
		switch {
		case f.away && r.kept:
			w.saw("requests stored whose client had left")
		case r.kept:
			w.saw("requests stored")
		default:
			w.saw("requests not stored")
		}
		f.s.Exchange.HandleDeferred(w.Now, &s)
		f.apply()
		if f.away && f.asked != nil {
			f.wrong("the client is gone, and what became of request %d was not reported when it was stored", r.id)
		}
	})
}

// stored chooses the result of storing a request.
func (w *world) stored() deferred.Stored {
	s := deferred.Stored{Outcome: deferred.Accepted, Position: 1, Due: w.Now.Add(time.Second),
		Expires: w.Now.Add(time.Minute), Durability: "fsync"}
	if w.fault(w.profile.unstored) {
		s = deferred.Stored{Outcome: deferred.Full, Bound: deferred.BoundEntries}
		if w.odds(0.5) {
			s = deferred.Stored{Outcome: deferred.Unstored, Err: errAway}
		}
	}
	return s
}

// reportDeferred checks the outcome that is reported for a request that may be stored.
func (f *front) reportDeferred(r *request, o *exchange.Outcome) {
	if kept := o.Decision == exchange.Deferred; kept != r.kept || o.Postponed != r.postponed {
		f.wrong("request %d: stored %t, to be delivered later %t; reported as %t, %t", r.id, r.kept, r.postponed, kept,
			o.Postponed)
	}
}

// leave resets the connection, unless the caller has ended.
func (c *caller) leave() {
	if !c.done {
		c.conn.Reset()
		c.done = true
	}
}
