package remote

import (
	"context"
	"errors"
	"fmt"
	"time"

	"weir/proxy/asks"
	"weir/proxy/limit"
	"weir/proxy/store"
)

// Decide has a master give places in queues back and decide groups; see [store.Backend].
func (b *backend) Decide(ctx context.Context, batch *store.Batch) {
	releases, size := batch.Releases, 0
	for i, sent := 0, 0; i < len(batch.Releases); i++ {
		n := sizeOf(&batch.Releases[i].Counter)
		if size > 0 && size+n > asks.QuestionBytesMax/2 {
			b.decide(ctx, batch.Releases[sent:i], nil)
			sent, size = i, 0
		}
		releases, size = batch.Releases[sent:], size+n
	}
	var call []*store.Group
	for _, g := range batch.Groups {
		n := sizeOfGroup(g)
		switch {
		case n == 0:
			g.Err, g.Granted = nil, g.N
			continue
		case n > asks.QuestionBytesMax/2 || g.N > asks.NMax:
			g.Err = errTooLarge
			continue
		case size+n > asks.QuestionBytesMax/2:
			b.decide(ctx, releases, call)
			releases, call, size = nil, nil, 0
		}
		call, size = append(call, g), size+n
	}
	if len(call)+len(releases) > 0 {
		b.decide(ctx, releases, call)
	}
}

// counterBytes is more than a counter takes without its rule and key.
const counterBytes = 80

// sizeOf is how much of a question a counter takes, or a little more; of one that no question
// holds it is more than a question.
func sizeOf(c *store.Counter) int {
	if len(c.Rule) > asks.RuleBytesMax {
		return asks.QuestionBytesMax + 1
	}
	return counterBytes + len(c.Rule) + len(c.Key)
}

// sizeOfGroup is how much of a question a group takes; 0: nothing need be asked.
func sizeOfGroup(g *store.Group) (n int) {
	for i := range g.Counters {
		if c := &g.Counters[i]; c.Limit.Algorithm() != limit.Off {
			n += sizeOf(c)
		}
	}
	return n
}

// decide is one call.
func (b *backend) decide(ctx context.Context, releases []store.Release, groups []*store.Group) {
	if err := b.ask(ctx, releases, groups); err != nil {
		for _, g := range groups {
			g.Err = err
		}
	}
}

// ask has the current master decide, or the next one that can be connected to.
func (b *backend) ask(ctx context.Context, releases []store.Release, groups []*store.Group) error {
	question := asks.AppendQuestion(nil, releases, groups)
	began := time.Now()
	first := int(b.current.Load())
	var err error
	for i := range b.cfg.URLs {
		master := (first + i) % len(b.cfg.URLs)
		if err = b.askOne(ctx, master, question, groups); !unconnected(err) || ctx.Err() != nil {
			b.current.CompareAndSwap(int32(first), int32(master))
			break
		}
	}
	b.exchanges.Observe(time.Since(began))
	return err
}

// askOne has one master decide. What fails leaves no idle connections: behind a balancer
// those that are kept would lead to the same master again.
func (b *backend) askOne(ctx context.Context, master int, question []byte, groups []*store.Group) error {
	err := b.askOnce(ctx, master, question, groups)
	if b.Classify(err).Class > store.ItemFault && !errors.Is(err, context.Canceled) {
		b.transport.CloseIdleConnections()
	}
	return err
}

func (b *backend) askOnce(ctx context.Context, master int, question []byte, groups []*store.Group) error {
	_, answer, err := b.do(ctx, master, &call{"/v1/decide", asks.ContentType, question})
	if err != nil {
		return err
	}
	mode, err := asks.ParseAnswer(answer, groups)
	switch {
	case err != nil:
		b.errors.Inc()
		return wrongProgram(fmt.Errorf("read the answer of %s: %w", b.cfg.URLs[master], err))
	case mode == store.FailOpen || mode == store.Closed:
		return &awayError{master: b.cfg.URLs[master], mode: mode}
	}
	return nil
}
