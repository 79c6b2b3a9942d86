package remote

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"weir/internal/net/http1"
	"weir/internal/net/loop"
	"weir/proxy/store"
	"weir/proxy/store/lane"
)

// A loop client asks masters on the loop of a lane, over connections of that loop.
//
// Owned by its loop.
type loopClient struct {
	b     *backend
	loop  *loop.Loop
	alarm *loop.Alarm

	calls         []*call       // in flight, by the time of Send, and so by their deadlines
	idle          []*masterConn // the last is the one used last
	question, out []byte
}

func (b *backend) NewLoopClient(l *loop.Loop) lane.LoopClient {
	k := &loopClient{b: b, loop: l}
	k.alarm = l.NewAlarm(k.expire)
	return k
}

func (lc *loopClient) Send(now time.Time, batch *store.Batch, until time.Time, done func(now time.Time)) {
	c := &call{k: lc, rest: debtsLast(batch), sent: now, until: until, done: done}
	if !c.next(now) {
		lc.loop.Post(done)
		return
	}
	lc.calls = append(lc.calls, c)
	lc.alarm.Set(lc.calls[0].until)
}

func (lc *loopClient) Fetch(time.Time) {
	for _, c := range slices.Clone(lc.calls) {
		if c.conn != nil {
			c.conn.net.Fetch()
		}
	}
}

// expire ends the batches that were not answered in time.
func (lc *loopClient) expire(now time.Time) {
	lc.Fetch(now)
	for len(lc.calls) > 0 && !lc.calls[0].until.After(now) {
		lc.calls[0].stop(now, context.DeadlineExceeded)
	}
	if len(lc.calls) > 0 {
		lc.alarm.Set(lc.calls[0].until)
	}
}

func (lc *loopClient) End(now, sent time.Time) {
	for len(lc.calls) > 0 && !lc.calls[0].sent.After(sent) {
		lc.calls[0].stop(now, context.Canceled)
	}
}

// take returns an idle conn to a master, or nil. It closes conns that must no longer be used.
func (lc *loopClient) take(now time.Time, at int) *masterConn {
	for n := len(lc.idle); n > 0; n = len(lc.idle) {
		l := lc.idle[n-1]
		lc.idle[n-1], lc.idle = nil, lc.idle[:n-1]
		if l.at == at && l.failures == lc.b.failures.Load() && now.Sub(l.used) < idleTimeout && l.net.Quiet() {
			return l
		}
		l.net.Close()
	}
	return nil
}

// keep keeps a conn for the next question, unless there are enough.
func (lc *loopClient) keep(now time.Time, l *masterConn) {
	if len(lc.idle) >= lc.b.cfg.InFlight {
		l.net.Close()
		return
	}
	l.used, l.kept = now, true
	lc.idle = append(lc.idle, l)
}

// A call is a batch that masters are asked about, in one or several questions in turn. A question
// is asked again only if the master certainly has not read it.
//
// Owned by its loop.
type call struct {
	k           *loopClient
	rest        store.Batch // not asked yet
	sent, until time.Time
	done        func(now time.Time) // nil: it has ended

	q               store.Batch // the question
	began           time.Time
	first, at, left int         // the master asked first, the one that is asked, and how many may be asked, with that one
	conn            *masterConn // that carries the question; nil: it waits for a connection
}

// next asks the next question, and reports whether there is one.
func (c *call) next(now time.Time) bool {
	if c.q = cut(&c.rest); empty(&c.q) {
		return false
	}
	c.began, c.first, c.left = now, int(c.k.b.current.Load()), len(c.k.b.masters)
	c.at = c.first
	c.ask(now)
	return true
}

// ask asks a master on an idle connection, or connects to it. Each master that is left has its
// share of the time to accept a connection.
func (c *call) ask(now time.Time) {
	if l := c.k.take(now, c.at); l != nil {
		l.ask(c)
		return
	}
	m, at, failures := c.k.b.masters[c.at], c.at, c.k.b.failures.Load()
	share := max(1, c.until.Sub(now)/time.Duration(c.left))
	c.k.loop.Dial(m.addr, share, m.secure, func(now time.Time, conn *loop.Conn, err error) loop.Handler {
		if err != nil {
			c.unconnected(now, err)
			return nil
		}
		l := &masterConn{k: c.k, net: conn, at: at, failures: failures, reader: http1.NewResponseReader(nil)}
		if c.done == nil { // it has ended meanwhile
			c.k.keep(now, l)
		} else {
			l.ask(c)
		}
		return l
	})
}

// unconnected asks the next master, since this one has received nothing.
func (c *call) unconnected(now time.Time, err error) {
	if c.done == nil {
		return
	}
	m := c.k.b.masters[c.at]
	if h, ok := errors.AsType[*loop.HandshakeError](err); ok {
		err = fmt.Errorf("handshake with %s: %w", m.url, h.Err)
	}
	err = fmt.Errorf("ask master: %w", err)
	if c.left--; c.left == 0 {
		c.settle(now, c.first, err)
		return
	}
	c.count(err)
	c.at = (c.at + 1) % len(c.k.b.masters)
	c.ask(now)
}

// count counts the question to one master and its result.
func (c *call) count(err error) {
	c.k.b.commands.Inc()
	c.k.b.heard(err)
}

// settle ends the question, and asks the next one. Later ones go to master next.
func (c *call) settle(now time.Time, next int, err error) {
	c.count(err)
	c.k.b.settle(&c.q, now.Sub(c.began), c.first, next, err)
	if c.next(now) {
		return
	}
	done := c.done
	c.done = nil
	c.k.calls = slices.DeleteFunc(c.k.calls, func(other *call) bool { return other == c })
	done(now)
}

// stop ends the call without an answer. What has not been asked has the same error.
func (c *call) stop(now time.Time, err error) {
	for _, g := range c.rest.Groups {
		g.Err = err
	}
	c.rest = store.Batch{}
	if c.conn != nil {
		c.conn.net.Close()
		c.conn.release()
	}
	c.settle(now, c.k.b.next(c.at, err), err)
}
