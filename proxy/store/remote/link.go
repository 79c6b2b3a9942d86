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

// A link is one connection to a master. It implements loop.Handler.
//
// Owned by its loop.
type link struct {
	k        *loopClient
	net      *loop.Conn
	at       int    // index of the master
	failures uint64 // value of the backend's failures when it was dialled; if that has changed, the link is not used
	used     time.Time
	kept     bool  // it was idle, so the master may have closed it before the question
	call     *call // whose question was asked; nil: idle

	reader http1.Reader
	head   http1.Head
	body   []byte
}

// ask asks the question of a call.
func (l *link) ask(c *call) {
	k := l.k
	l.call, c.link = c, l
	k.question = asks.AppendBatch(k.question[:0], c.q.Refunds, c.q.Groups)
	k.out = k.b.masters[l.at].appendRequest(k.out[:0], k.question)
	l.net.Write(k.out)
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
func (l *link) Data(now time.Time, b []byte) int {
	if l.call == nil {
		l.forget()
		l.net.Close()
		return len(b)
	}
	n, complete, err := l.read(b)
	switch {
	case complete:
		l.answered(now, l.head.KeepAlive && n == len(b))
	case err == nil:
		return n
	default:
		l.fail(now, err)
	}
	return len(b)
}

func (l *link) Expired(time.Time) {}

// Closed implements loop.Handler. The end of the connection may be the end of an answer. If the
// master closed the idle connection before the question arrived, it has not decided, since no
// master half-closes and reads on: it is asked again, and counts as available. After a reset it
// may have decided.
func (l *link) Closed(now time.Time, err error) {
	switch {
	case l.call == nil:
		l.forget()
	case err == nil: // this side closed it: the loop ends, or has no descriptor left
		l.release().stop(now, context.Canceled)
	case l.kept && l.net.Unacked():
		l.release().ask(now)
	case err == io.EOF && l.net.Unacked(): // it closes new connections: another one may not
		l.release().unconnected(now, io.ErrUnexpectedEOF)
	case err == io.EOF && l.ends():
		l.answered(now, false)
	case err == io.EOF:
		l.fail(now, io.ErrUnexpectedEOF)
	default:
		l.fail(now, err)
	}
}

// answered handles a complete answer, and keeps the connection if again is true.
func (l *link) answered(now time.Time, again bool) {
	c := l.release()
	err := judge(l.k.b.masters[l.at], l.head.Status, l.body, c.q.Groups)
	l.body = spare(l.body)
	if again {
		l.k.keep(now, l)
	} else {
		l.net.Close()
	}
	c.settle(now, l.k.b.next(l.at, err), err)
}

// fail ends the question without an answer, and closes the connection.
func (l *link) fail(now time.Time, err error) {
	c := l.release()
	l.net.Close()
	err = fmt.Errorf("ask master %s: %w", l.k.b.masters[l.at].url, err)
	c.settle(now, l.k.b.next(l.at, err), err)
}

// release separates the link from its call, and returns that.
func (l *link) release() *call {
	c := l.call
	l.call, c.link = nil, nil
	return c
}

func (l *link) forget() {
	l.k.idle = slices.DeleteFunc(l.k.idle, func(other *link) bool { return other == l })
}

// read adds b, of which it reads n bytes, to the answer, and reports whether that is complete.
func (l *link) read(b []byte) (n int, complete bool, err error) {
	for {
		event, err := l.reader.Next(b[n:], &l.head)
		n += event.N
		switch {
		case err != nil || event.Kind == http1.NeedMore:
			return n, false, err
		case event.Kind == http1.Upgraded:
			return n, false, errUpgraded
		case event.Kind == http1.End:
			return n, true, nil
		case event.Kind == http1.Data:
			if l.body = append(l.body, event.Data...); len(l.body) > answerBytesMax {
				return n, false, errLarge
			}
		}
	}
}

// ends reports whether the end of the connection completes the answer.
func (l *link) ends() bool {
	event, err := l.reader.EOF()
	return err == nil && event.Kind == http1.End
}

var (
	errLarge    = errors.New("the answer is too large")
	errUpgraded = errors.New("the answer switches protocols")
)
