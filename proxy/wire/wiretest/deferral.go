package wiretest

import (
	"bytes"
	"errors"
	"strconv"
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
func (w *World) swapRules(l limit.Limit) {
	p := decide.NewPolicy(l)
	if w.Odds(w.Profile.defers) {
		p = p.With(deferring, "1")
	}
	w.policy.Store(p)
}

// Defer stores a refused request in a queue that answers later, even if the client has disconnected.
// It implements wire.DeferFunc; then calls post, which calls a function on the loop of the request.
func (w *World) Defer(k *exchange.DeferredRequest, stored func(deferred.PutResult), post func(func(now time.Time))) {
	_, id, _ := strings.Cut(string(k.Fields()), "X-Req: ")
	id, _, _ = strings.Cut(id, "\r\n")
	n, _ := strconv.ParseUint(id, 10, 64)
	r := w.requests[n]
	if r == nil {
		w.failed(nil, "an unknown request is stored: %q", k.Fields())
		return
	}
	f := r.caller.front
	switch {
	case f.away || f.ended:
		f.Wrong("a request is stored for a client that is gone")
	case r != f.asked || r.allowed || r.storeAway || f.storing:
		f.Wrong("something is stored that was not refused, or twice")
	case k.Rule.ID != "later" || !bytes.Equal(k.Body, w.up(r.id, 0, r.body)) || r.body > deferMax:
		f.Wrong("request %d of %d bytes is stored by rule %s with %d bytes", r.id, r.body, k.Rule.ID, len(k.Body))
	case string(k.MethodText()) != r.method:
		f.Wrong("request %d is stored as %q", r.id, k.MethodText())
	}
	f.Log.Note(w.Now(), "store request", int64(r.id), "")
	f.storing = true
	if w.Fault(w.Profile.callerFaults) {
		w.After(w.Within(w.Profile.lateness), f.caller.leave)
	}
	w.After(w.Within(w.Profile.lateness), func() {
		s := w.stored()
		r.kept = s.Outcome == deferred.Accepted
		stored(s)
		post(func(time.Time) { f.stored(r, s.Outcome) })
	})
}

// stored is called after the session has the result of storing r.
func (f *ClientView) stored(r *request, outcome deferred.Outcome) {
	f.Log.Note(f.w.Now(), "stored", int64(r.id), outcome.String())
	switch {
	case f.away && r.kept:
		f.w.Saw("requests stored whose client had left")
	case r.kept:
		f.w.Saw("requests stored")
	default:
		f.w.Saw("requests not stored")
	}
	if f.asked == r && f.away {
		f.Wrong("the client is gone, and what became of request %d was not reported when it was stored", r.id)
	}
}

// stored chooses the result of storing a request.
func (w *World) stored() deferred.PutResult {
	s := deferred.PutResult{Outcome: deferred.Accepted, Position: 1, Due: w.Now().Add(time.Second),
		Expires: w.Now().Add(time.Minute), Durability: "fsync"}
	if w.Fault(w.Profile.unstored) {
		s = deferred.PutResult{Outcome: deferred.Full, Bound: deferred.BoundEntries}
		if w.Odds(0.5) {
			s = deferred.PutResult{Outcome: deferred.Unstored, Err: errAway}
		}
	}
	return s
}

// leave resets the connection, unless the caller has ended.
func (c *caller) leave() {
	if !c.done {
		c.conn.Reset()
		c.done = true
	}
}
