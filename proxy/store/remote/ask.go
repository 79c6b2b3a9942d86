package remote

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"time"

	"weir/proxy/limit"
	"weir/proxy/store"
	"weir/proxy/store/asks"
)

// Decide asks the current master, for lanes without a loop; see [store.Backend]. Lanes of loops
// have a loop client.
func (b *backend) Decide(ctx context.Context, batch *store.Batch) {
	rest := debtsLast(batch)
	for q := cut(&rest); !empty(&q); q = cut(&rest) {
		at, began := int(b.current.Load()), time.Now()
		err := b.askOne(ctx, at, &q)
		b.settle(&q, time.Since(began), at, b.next(at, err), err)
	}
}

// debtsLast returns the batch with its groups with debt at the end, so that few questions are needed for them.
func debtsLast(batch *store.Batch) store.Batch {
	b := *batch
	if slices.ContainsFunc(b.Groups, owes) {
		free := slices.DeleteFunc(slices.Clone(b.Groups), owes)
		b.Groups = append(free, slices.DeleteFunc(slices.Clone(b.Groups), func(g *store.Group) bool { return !owes(g) })...)
	}
	return b
}

// owes reports whether a group has debt. A master of an earlier version answers 400 to a whole question with one.
func owes(g *store.Group) bool {
	for i := range g.Counters { // ContainsFunc would copy each
		if g.Counters[i].Debt > 0 {
			return true
		}
	}
	return false
}

// cut removes from the beginning of a batch what one question may ask, and returns it: nothing if
// the batch is empty. It settles groups about which no master need or can be asked. A question has either groups with
// debt or others, so that masters that know no debt decide the others.
func cut(rest *store.Batch) (q store.Batch) {
	var r room
	n := 0
	for n < len(rest.Refunds) && r.take(sizeOf(&rest.Refunds[n].Counter), 0) {
		n++
	}
	q.Refunds, rest.Refunds = rest.Refunds[:n], rest.Refunds[n:]
	if len(rest.Refunds) > 0 {
		return q
	}
	n = 0
	debt := false
	for n < len(rest.Groups) {
		g := rest.Groups[n]
		size := sizeOfGroup(g)
		done := settled(g, size.question)
		if n == 0 && done {
			rest.Groups = rest.Groups[1:]
			continue
		}
		if n == 0 {
			debt = size.debt && len(q.Refunds) == 0
		}
		if done || size.debt != debt || !r.take(size.question, size.states) {
			break
		}
		n++
	}
	q.Groups, rest.Groups = rest.Groups[:n], rest.Groups[n:]
	return q
}

func empty(q *store.Batch) bool { return len(q.Refunds)+len(q.Groups) == 0 }

// room has upper bounds on the sizes of a question and of the states in its answer.
type room struct{ question, states int }

// take adds to them, unless that is too much for one question. The first always fits.
func (r *room) take(question, states int) bool {
	if r.question > 0 && (r.question+question > asks.BatchBytesMax/2 || r.states+states > asks.AnswerBytesMax) {
		return false
	}
	r.question, r.states = r.question+question, r.states+states
	return true
}

// settled reports whether no master need or can be asked about g, whose encoded size is n. It then has its result.
func settled(g *store.Group, n int) bool {
	switch {
	case n == 0:
		g.Err, g.Granted = nil, g.N
	case n > asks.BatchBytesMax/2 || g.N > asks.RequestsMax:
		g.Err = errTooLarge
	default:
		return false
	}
	return true
}

// counterBytes is an upper bound on the encoded size of a counter without its rule and key.
const counterBytes = 88

// sizeOf returns an upper bound on the encoded size of a counter. For a counter that fits no
// question, it is larger than a question may be.
func sizeOf(c *store.Counter) int {
	if len(c.Rule) > asks.RuleBytesMax {
		return asks.BatchBytesMax + 1
	}
	return counterBytes + len(c.Rule) + len(c.Key)
}

// A groupSize says how much of a question and of its answer a group takes.
type groupSize struct {
	question int  // upper bound on its encoded size; 0 if a master need not be asked
	states   int  // about the size of its states in the answer
	debt     bool // see owes
}

func sizeOfGroup(g *store.Group) (s groupSize) {
	for i := range g.Counters {
		c := &g.Counters[i]
		s.debt = s.debt || c.Debt > 0
		if c.Limit.Algorithm() != limit.Off {
			s.question, s.states = s.question+sizeOf(c), s.states+c.Limit.BytesMax(c.Debt)
		}
	}
	return s
}

// askOne asks one master to decide.
func (b *backend) askOne(ctx context.Context, at int, q *store.Batch) error {
	m := b.masters[at]
	res, answer, err := b.call(ctx, m.url+"/v1/decide", asks.ContentType, asks.AppendBatch(nil, q.Refunds, q.Groups))
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err // what follows names the master
	}
	switch op, ok := errors.AsType[*net.OpError](err); {
	case err == nil:
		err = judge(m, res.StatusCode, answer, q.Groups)
	case ok && op.Op == "dial":
		err = fmt.Errorf("ask master: %w", err)
	default:
		err = fmt.Errorf("ask master %s: %w", m.url, err)
	}
	b.heard(err)
	return err
}

// settle ends a question for which master at was the first: with err, unless the groups have their
// results. The next questions go to master next.
func (b *backend) settle(q *store.Batch, took time.Duration, at, next int, err error) {
	if err != nil {
		for _, g := range q.Groups {
			g.Err = err
		}
	}
	b.current.CompareAndSwap(int32(at), int32(next))
	b.exchanges.Observe(took)
}

// next returns the master to ask after master at has returned err: the same one, or the next one
// if it did not answer in time, because nothing is sent twice.
func (b *backend) next(at int, err error) int {
	if b.Classify(err).Class == store.TimeoutFault {
		return (at + 1) % len(b.masters)
	}
	return at
}

// heard counts the result of a question. After an error that is not about single groups it closes
// the idle connections, because behind a load balancer they would lead to the same master again.
func (b *backend) heard(err error) {
	if err != nil {
		b.errors.Inc()
	}
	if b.Classify(err).Class > store.ItemFault {
		b.failures.Add(1)
		b.transport.CloseIdleConnections()
	}
}

// judge stores the decisions of a master's answer in the groups, or returns an error.
func judge(m *master, status int, answer []byte, groups []*store.Group) error {
	if status != http.StatusOK {
		return fmt.Errorf("ask master: %w", refused(m.url, "/v1/decide", status, answer))
	}
	mode, err := asks.ParseAnswer(answer, groups)
	switch {
	case err != nil:
		return wrongProgram(fmt.Errorf("read the answer of %s: %w", m.url, err))
	case mode == store.FailOpen || mode == store.Closed:
		return &unavailableError{master: m.url, mode: mode}
	}
	return nil
}
