package remote

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"weir/internal/net/loop"
	"weir/proxy/store"
	"weir/proxy/store/asks"
	"weir/proxy/store/lane"
)

// redialPause is the pause after a connection could not be made.
const redialPause = time.Second

// A courier asks masters on the loop of a lane. It sends batches that fit one question, over
// plain connections that are already open. [backend.Decide] on a helper handles everything else:
// several questions, TLS, and masters without a connection, also while the courier connects to
// them.
//
// Owned by its loop.
type courier struct {
	b     *backend
	loop  *loop.Loop
	alarm *loop.Alarm

	idle, busy []*link // idle: the last is the one used last; busy: by deadline
	dialling   bool
	redial     time.Time // no connection is made before this time
	out        []byte
}

func (b *backend) NewCourier(l *loop.Loop) lane.Courier {
	k := &courier{b: b, loop: l}
	k.alarm = l.NewAlarm(k.expire)
	return k
}

// Send asks the current master, and reports whether it could; see [lane.Courier].
func (k *courier) Send(now time.Time, batch *store.Batch, until time.Time, done func(now time.Time, again bool)) bool {
	at := int(k.b.current.Load())
	m := k.b.masters[at]
	if m.secure != nil || !oneQuestion(batch) {
		return false
	}
	l := k.take(now, at)
	if l == nil {
		k.dial(now, at)
		return false
	}
	l.question = asks.AppendQuestion(l.question[:0], batch.Releases, batch.Groups)
	k.out = m.appendRequest(k.out[:0], l.question)
	l.batch, l.began, l.until, l.done = batch, now, until, done
	k.busy = append(k.busy, l)
	k.alarm.Set(k.busy[0].until)
	l.net.Write(k.out)
	l.question, k.out = kept(l.question), kept(k.out)
	return true
}

// oneQuestion reports whether a batch has something to ask and fits one question.
func oneQuestion(batch *store.Batch) bool {
	size, answer := 0, 0
	for i := range batch.Releases {
		size += sizeOf(&batch.Releases[i].Counter)
	}
	for _, g := range batch.Groups {
		n, states := sizeOfGroup(g)
		if n == 0 || g.N > asks.NMax {
			return false
		}
		size, answer = size+n, answer+states
	}
	return size <= asks.QuestionBytesMax/2 && answer <= asks.AnswerBytesMax
}

// take returns an idle link to a master, or nil. It closes links that must no longer be used.
func (k *courier) take(now time.Time, at int) *link {
	for n := len(k.idle); n > 0; n = len(k.idle) {
		l := k.idle[n-1]
		k.idle[n-1], k.idle = nil, k.idle[:n-1]
		if l.at == at && l.failures == k.b.failures.Load() && now.Sub(l.used) < idleTimeout {
			return l
		}
		l.net.Close()
	}
	return nil
}

// dial starts a connection to a master, unless one is being made or there are enough.
func (k *courier) dial(now time.Time, at int) {
	if k.dialling || len(k.busy) >= k.b.cfg.InFlight || now.Before(k.redial) {
		return
	}
	k.dialling = true
	failures := k.b.failures.Load()
	k.loop.Dial(k.b.masters[at].addr, k.b.cfg.Timeout, nil, func(now time.Time, c *loop.Conn, err error) loop.Handler {
		k.dialling = false
		if err != nil {
			k.redial = now.Add(redialPause)
			return nil
		}
		l := &link{k: k, net: c, at: at, failures: failures, used: now, answer: newAnswer()}
		k.idle = append(k.idle, l)
		return l
	})
}

func (k *courier) Fetch(time.Time) {
	for _, l := range slices.Clone(k.busy) {
		l.net.Fetch()
	}
}

// expire ends the questions that were not answered in time.
func (k *courier) expire(now time.Time) {
	k.Fetch(now)
	for len(k.busy) > 0 && !k.busy[0].until.After(now) {
		k.busy[0].fail(now, context.DeadlineExceeded)
	}
	if len(k.busy) > 0 {
		k.alarm.Set(k.busy[0].until)
	}
}

// End ends the questions that were sent by the time sent. Busy links are in the order in which
// they were written to.
func (k *courier) End(now, sent time.Time) {
	for len(k.busy) > 0 && !k.busy[0].began.After(sent) {
		k.busy[0].fail(now, context.Canceled)
	}
}

// A link is one connection to a master. It implements loop.Handler.
//
// Owned by its loop.
type link struct {
	k        *courier
	net      *loop.Conn
	at       int    // index of the master
	failures uint64 // value of the backend's failures when it was dialled; if that has changed, the link is not used
	used     time.Time

	batch        *store.Batch // the batch asked about; nil: idle
	began, until time.Time
	done         func(now time.Time, again bool)
	question     []byte
	answer
}

// Data reads an answer. Bytes without a question close the connection.
func (l *link) Data(now time.Time, b []byte) int {
	if l.batch != nil {
		switch n, complete, err := l.read(b); {
		case complete:
			l.answered(now, l.head.KeepAlive && n == len(b))
			return len(b)
		case err == nil:
			return n
		default:
			l.fail(now, err)
		}
	}
	l.close()
	return len(b)
}

func (l *link) Expired(time.Time) {}

// Closed implements loop.Handler. The end of the connection may be the end of an answer. If the
// master closed the idle connection before the question arrived, it has not decided, since no
// master half-closes and reads on: a helper asks again, and the master counts as available. After
// a reset the master may have decided.
func (l *link) Closed(now time.Time, err error) {
	l.forget()
	if l.batch == nil {
		return
	}
	if err == io.EOF && l.net.Unacked() {
		done := l.done
		l.free()
		done(now, true)
		return
	}
	if err == io.EOF && l.ends() {
		l.answered(now, false)
		return
	}
	switch err {
	case nil: // this side closed it: the loop ends, or has no descriptor left
		err = context.Canceled
	case io.EOF:
		err = io.ErrUnexpectedEOF
	}
	l.fail(now, err)
}

// answered handles a complete answer, and keeps the connection if again is true.
func (l *link) answered(now time.Time, again bool) {
	m, batch := l.k.b.masters[l.at], l.batch
	err := judge(m, l.head.Status, l.body, batch.Groups)
	l.body = kept(l.body[:0])
	l.end(now, err, again)
}

// fail ends the question without an answer, and closes the connection.
func (l *link) fail(now time.Time, err error) {
	if err != context.DeadlineExceeded && err != context.Canceled {
		err = fmt.Errorf("ask master %s: %w", l.k.b.masters[l.at].url, err)
	}
	l.end(now, err, false)
}

// end reports the result of the question.
func (l *link) end(now time.Time, err error, again bool) {
	k, batch, done := l.k, l.batch, l.done
	l.free()
	if err != nil {
		for _, g := range batch.Groups {
			g.Err = err
		}
	}
	k.b.heard(err)
	k.b.current.CompareAndSwap(int32(l.at), int32(k.b.next(l.at, err)))
	k.b.commands.Inc() // here, so that a question that is repeated is counted once
	k.b.exchanges.Observe(now.Sub(l.began))
	if again {
		l.used = now
		k.idle = append(k.idle, l)
	} else {
		l.net.Close()
	}
	done(now, false)
}

func (l *link) free() {
	l.batch, l.done = nil, nil
	l.k.busy = slices.DeleteFunc(l.k.busy, func(other *link) bool { return other == l })
}

// close ends an idle connection.
func (l *link) close() {
	l.forget()
	l.net.Close()
}

func (l *link) forget() {
	l.k.idle = slices.DeleteFunc(l.k.idle, func(other *link) bool { return other == l })
}
