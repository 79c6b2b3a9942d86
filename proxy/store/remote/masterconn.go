package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"weir/internal/net/http1"
	"weir/internal/net/loop"
	"weir/proxy/store/asks"
)

// A masterConn is one connection to a master. It implements loop.Handler.
//
// Owned by its loop.
type masterConn struct {
	k        *loopClient
	net      *loop.Conn
	at       int    // index of the master
	failures uint64 // value of the backend's failures when it was dialled; if that has changed, the conn is not used
	used     time.Time
	kept     bool  // it was idle, so the master may have closed it before the question
	call     *call // whose question was asked; nil: idle

	reader http1.Reader
	head   http1.Head
	body   []byte
}

// ask asks the question of a call.
func (m *masterConn) ask(c *call) {
	k := m.k
	m.call, c.conn = c, m
	k.question = asks.AppendBatch(k.question[:0], c.q.Refunds, c.q.Groups)
	k.out = k.b.masters[m.at].appendRequest(k.out[:0], k.question)
	m.net.Write(k.out)
	k.question, k.out = spare(k.question), spare(k.out)
}

// spare returns b without its content for reuse, or nil if it is too large.
func spare(b []byte) []byte {
	if cap(b) > spareBytesMax {
		return nil
	}
	return b[:0]
}

// Data reads an answer. Bytes without a question close the connection.
func (m *masterConn) Data(now time.Time, b []byte) int {
	if m.call == nil {
		m.forget()
		m.net.Close()
		return len(b)
	}
	n, complete, err := m.read(b)
	switch {
	case complete:
		m.answered(now, m.head.KeepAlive && n == len(b))
	case err == nil:
		return n
	default:
		m.fail(now, err)
	}
	return len(b)
}

func (m *masterConn) Expired(time.Time) {}

// Closed implements loop.Handler. The end of the connection may be the end of an answer. If the
// master closed the idle connection before the question arrived, it has not decided, since no
// master half-closes and reads on: it is asked again, and counts as available. After a reset it
// may have decided.
func (m *masterConn) Closed(now time.Time, err error) {
	switch {
	case m.call == nil:
		m.forget()
	case err == nil: // this side closed it: the loop ends, or has no descriptor left
		m.release().stop(now, context.Canceled)
	case m.kept && m.net.Unacked():
		m.release().ask(now)
	case err == io.EOF && m.net.Unacked(): // it closes new connections: another master may not
		m.release().unconnected(now, io.ErrUnexpectedEOF)
	case err == io.EOF && m.ends():
		m.answered(now, false)
	case err == io.EOF:
		m.fail(now, io.ErrUnexpectedEOF)
	default:
		m.fail(now, err)
	}
}

// answered handles a complete answer, and keeps the connection if again is true.
func (m *masterConn) answered(now time.Time, again bool) {
	c := m.release()
	err := judge(m.k.b.masters[m.at], m.head.Status, m.body, c.q.Groups)
	m.body = spare(m.body)
	if again {
		m.k.keep(now, m)
	} else {
		m.net.Close()
	}
	c.settle(now, m.k.b.next(m.at, err), err)
}

// fail ends the question without an answer, and closes the connection.
func (m *masterConn) fail(now time.Time, err error) {
	c := m.release()
	m.net.Close()
	err = fmt.Errorf("ask master %s: %w", m.k.b.masters[m.at].url, err)
	c.settle(now, m.k.b.next(m.at, err), err)
}

// release separates the conn from its call, and returns the call.
func (m *masterConn) release() *call {
	c := m.call
	m.call, c.conn = nil, nil
	return c
}

func (m *masterConn) forget() {
	m.k.idle = slices.DeleteFunc(m.k.idle, func(other *masterConn) bool { return other == m })
}

// read adds b, of which it reads n bytes, to the answer, and reports whether that is complete.
func (m *masterConn) read(b []byte) (n int, complete bool, err error) {
	for {
		event, err := m.reader.Next(b[n:], &m.head)
		n += int(event.N)
		switch {
		case err != nil || event.Kind == http1.NeedMore:
			return n, false, err
		case event.Kind == http1.Upgraded:
			return n, false, errUpgraded
		case event.Kind == http1.End:
			return n, true, nil
		case event.Kind == http1.Data:
			if m.body = append(m.body, event.Data...); len(m.body) > answerBytesMax {
				return n, false, errLarge
			}
		}
	}
}

// ends reports whether the end of the connection completes the answer.
func (m *masterConn) ends() bool {
	event, err := m.reader.EOF()
	return err == nil && event.Kind == http1.End
}

var (
	errLarge    = errors.New("the answer is too large")
	errUpgraded = errors.New("the answer switches protocols")
)
