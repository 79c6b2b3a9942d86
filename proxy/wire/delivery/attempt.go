package delivery

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"time"

	"weir/internal/net/http1"
	"weir/proxy/deferred"
	"weir/proxy/wire"
)

// A attempt is an entry that is being delivered.
type attempt struct {
	d     *Dispatcher
	queue deferred.Queue
	lease deferred.Lease
	e     *deferred.Entry
	terms *deferred.Defer

	placed   bool           // it has one of the Dispatcher's places; immutable after begin
	delivery *wire.Delivery // set before Close may read it; nil: the entry has expired
}

// withdraw returns the entry unchanged to its line, if no part of it was sent.
func (p *attempt) withdraw(now time.Time) {
	if p.delivery != nil && p.delivery.SendState.Withdraw() {
		p.settle(now, &deferred.Settlement{To: deferred.Waiting, Due: p.e.Due})
	}
}

// placePause is the pause of an entry for which there is no place, per client that has one.
const placePause = time.Second

// pause returns the entry to its line for a while, because there is no place for its client.
func (p *attempt) pause(now time.Time, clients int) {
	after := time.Duration((1 + rand.Float64()*float64(clients)) * float64(placePause))
	p.settle(now, &deferred.Settlement{To: deferred.Waiting, Due: now.Add(after)})
}

// request returns the stored request with the length of its body, and the field lines to add for
// the target: the number of the attempt, and an Idempotency-Key if the client has sent none.
func (p *attempt) request() (request, added []byte) {
	e := p.e
	request = make([]byte, 0, len(e.Head)+len(e.Body)+32)
	request = append(request, e.Head...)
	request = http1.AppendHeadEnd(http1.AppendFieldInt(request, "Content-Length", int64(len(e.Body))))
	request = append(request, e.Body...)
	added = fmt.Appendf(nil, "%s: %s;attempt=%d;accepted=%d\r\n", deferred.AttemptField, e.ID, e.Attempts+1,
		e.Accepted.Unix())
	if !e.Keyed() {
		added = fmt.Appendf(added, "%s: weir-%s\r\n", deferred.KeyField, e.ID)
	}
	return request, added
}

// done handles the end of the delivery. It is called on a loop.
func (p *attempt) done(now time.Time, w *wire.DeliveryResult) {
	if w.Refused {
		p.settle(now, &deferred.Settlement{To: deferred.Waiting, Due: now.Add(w.After)})
		return
	}
	a := deferred.Attempt{N: p.e.Attempts + 1, Sent: w.Sent, Status: w.Result.Status, RetryAfter: w.After,
		Keyed: p.e.Keyed()}
	to, after := p.terms.Judge(&a, rand.Float64())
	s := &deferred.Settlement{To: to, Last: deferred.LastAttempt{At: now, Status: a.Status, Error: w.Fault}}
	if a.Status > 0 && to.Final() { // before, it would take room that its client may not have
		s.Result = resultOf(p.e, &w.Result)
	}
	if p.attempted(now, s, after) {
		if n, ok := p.d.goneLog.Allow(now, time.Second); ok {
			p.d.cfg.Log.Warn("Gave up", "rule", p.e.Rule, "id", p.e.ID, "state", to, "attempts", a.N, "last",
				lastOf(&s.Last), "others", n)
		}
	}
	p.settle(now, s)
}

// attempted completes the settlement of an attempt, and reports whether the entry is given up.
// after is the time until the next attempt.
func (p *attempt) attempted(now time.Time, s *deferred.Settlement, after time.Duration) (gaveUp bool) {
	s.Attempt = true
	switch s.To {
	case deferred.Waiting:
		if s.Due = now.Add(after); s.Due.After(p.e.Expires) { // as a target may demand
			s.Due = p.e.Expires
		}
	case deferred.Done:
		s.Keep = p.terms.Retention()
	default:
		s.Keep, gaveUp = p.d.cfg.DeadKeep, true
	}
	return gaveUp
}

// lastOf returns the outcome of an attempt for the log: the status, or the error.
func lastOf(l *deferred.LastAttempt) any {
	if l.Status > 0 {
		return l.Status
	}
	return l.Error
}

// settle settles the entry. If its final state is to be called back, the callback is stored
// first.
func (p *attempt) settle(now time.Time, s *deferred.Settlement) {
	s.Lease = p.lease
	s.Done = func(err error) { // the queue logs its failures
		if err == nil {
			p.d.counts.delivered(p.e, s, now)
		}
		p.d.left(p)
	}
	if p.e.Callback == "" || p.e.Rule == CallbackRule || !s.To.Final() {
		p.queue.Settle(now, s)
		return
	}
	p.d.inBackground(func() {
		p.d.announce(p.queue, settled(p.e, s))
		p.queue.Settle(now, s)
	})
}

// settled returns the entry as it will be once it is settled.
func settled(e *deferred.Entry, s *deferred.Settlement) *deferred.Entry {
	after := *e
	after.State = s.To
	if s.Attempt {
		after.Attempts++
	}
	if s.Last != (deferred.LastAttempt{}) {
		after.Last = s.Last
	}
	if s.Result != nil {
		after.Result = s.Result
	}
	return &after
}

// resultOf returns what is kept of an entry: an answer, or nothing of one if it is nil. Its Head
// begins with the request line, because queues delete the requests of entries that are done or
// cancelled, and maySee needs the path.
func resultOf(e *deferred.Entry, answer *deferred.Result) *deferred.Result {
	var r deferred.Result
	if answer != nil {
		r = *answer
	}
	r.Head = append(append(bytes.Clone(firstLine(e.Head)), "\r\n"...), r.Head...)
	return &r
}

// firstLine returns the request line of a stored request.
func firstLine(head []byte) []byte {
	line, _, _ := bytes.Cut(head, []byte("\r\n"))
	return line
}

// requestLine returns the method and the target of a stored request.
func requestLine(head []byte) (method, target []byte) {
	method, rest, _ := bytes.Cut(firstLine(head), []byte(" "))
	target, _, _ = bytes.Cut(rest, []byte(" "))
	return method, target
}
