package remote

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"weir/proxy/limit"
	"weir/proxy/store"
	"weir/proxy/store/asks"
)

// Decide lets a master carry out the releases and decide the groups; see [store.Backend].
func (b *backend) Decide(ctx context.Context, batch *store.Batch) {
	var q question
	from := 0 // the first release of q
	for i := range batch.Releases {
		b.fit(ctx, &q, sizeOf(&batch.Releases[i].Counter), 0)
		if len(q.releases) == 0 {
			from = i
		}
		q.releases = batch.Releases[from : i+1]
	}
	for _, g := range batch.Groups {
		switch n, states := sizeOfGroup(g); {
		case n == 0:
			g.Err, g.Granted = nil, g.N
		case n > asks.QuestionBytesMax/2 || g.N > asks.NMax:
			g.Err = errTooLarge
		default:
			b.fit(ctx, &q, n, states)
			q.groups = append(q.groups, g)
		}
	}
	if q.size > 0 {
		b.decide(ctx, &q)
	}
}

// A question is the content of one call.
type question struct {
	releases       []store.Release
	groups         []*store.Group
	size, states   int       // upper bounds on the sizes of the question and of the states in its answer
	connect, until time.Time // deadlines of the connection and of the answer
}

// fit adds the size of what is to be added to a question. If that does not fit, it first makes a
// call with what the question has.
func (b *backend) fit(ctx context.Context, q *question, n, states int) {
	if q.size > 0 && (q.size+n > asks.QuestionBytesMax/2 || q.states+states > asks.AnswerBytesMax) {
		b.decide(ctx, q)
		*q = question{}
	}
	q.size, q.states = q.size+n, q.states+states
}

// counterBytes is an upper bound on the encoded size of a counter without its rule and key.
const counterBytes = 80

// sizeOf returns an upper bound on the encoded size of a counter. For a counter that fits no
// question, it is larger than a question may be.
func sizeOf(c *store.Counter) int {
	if len(c.Rule) > asks.RuleBytesMax {
		return asks.QuestionBytesMax + 1
	}
	return counterBytes + len(c.Rule) + len(c.Key)
}

// sizeOfGroup returns an upper bound on the encoded size of a group, and about the size of its
// states in the answer. n is 0 if a master need not be asked.
func sizeOfGroup(g *store.Group) (n, states int) {
	for i := range g.Counters {
		if c := &g.Counters[i]; c.Limit.Algorithm() != limit.Off {
			n, states = n+sizeOf(c), states+c.Limit.BytesMax()
		}
	}
	return n, states
}

// decide makes one call. An error is stored in the groups.
func (b *backend) decide(ctx context.Context, q *question) {
	if err := b.ask(ctx, q); err != nil {
		for _, g := range q.groups {
			g.Err = err
		}
	}
}

// ask asks the current master to decide, or the next one to which a connection can be made: each
// has its share of the time to accept one. If a master does not answer in time, the next master
// becomes the current one for later calls, because nothing is sent twice.
func (b *backend) ask(ctx context.Context, q *question) error {
	began := time.Now()
	var bounded bool
	if q.until, bounded = ctx.Deadline(); !bounded {
		q.until = began.Add(b.cfg.Timeout)
	}
	first, now := int(b.current.Load()), began
	var err error
	for left := len(b.masters); left > 0; left-- {
		at := (first + len(b.masters) - left) % len(b.masters)
		q.connect = now.Add(q.until.Sub(now) / time.Duration(left))
		if err = b.askOne(ctx, at, q); !unconnected(err) || ctx.Err() != nil {
			b.current.CompareAndSwap(int32(first), int32(b.next(at, err)))
			break
		}
		now = time.Now()
	}
	b.exchanges.Observe(time.Since(began))
	return err
}

// next returns the master to ask after master at has returned err: the same one, or the next one
// if it did not answer.
func (b *backend) next(at int, err error) int {
	if b.Classify(err).Class == store.LateFault {
		return (at + 1) % len(b.masters)
	}
	return at
}

// askOne asks one master to decide.
func (b *backend) askOne(ctx context.Context, at int, q *question) (err error) {
	b.commands.Inc()
	defer func() { b.heard(err) }()
	m := b.masters[at]
	c, err := m.take(ctx, time.Now(), q.connect)
	if err != nil {
		return fmt.Errorf("ask master: %w", err)
	}
	c.question = asks.AppendQuestion(c.question[:0], q.releases, q.groups)
	status, answer, again, err := c.exchange(ctx, m, q.until)
	if err == nil {
		err = judge(m, status, answer, q.groups)
	} else {
		err = fmt.Errorf("ask master %s: %w", m.url, err)
	}
	if again {
		m.give(time.Now(), c)
	} else {
		c.Close()
	}
	return err
}

// heard counts the result of a question. After an error that is not about single groups it closes
// the idle connections, because behind a load balancer they would lead to the same master again.
func (b *backend) heard(err error) {
	if err != nil {
		b.errors.Inc()
	}
	if b.Classify(err).Class > store.ItemFault {
		b.failures.Add(1)
		b.Close()
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
