package wire

import (
	"errors"
	"net"
	"syscall"
	"time"

	"weir/internal/net/loop"
	"weir/proxy/http/exchange"
	"weir/proxy/http/session"
	"weir/proxy/targets/roster"
	"weir/proxy/targets/upstream"
)

// A pool asks for a dial when a request needs a connection. With HTTP/1.1 a dial is a connect. With HTTP/2
// a dial takes a free stream of an open connection. If there is none, it waits for a connect, which serves
// as many dials as the new connection has streams.

// dials are what a target's pool has asked for.
//
// Owned by its loop.
type dials struct {
	lenders    []*lender // connections of HTTP/2
	connecting int       // connects in progress
	owed       int       // dials that wait for one of them, or for a stream to become free
	plain      bool      // the target has chosen HTTP/1.1
	streams    int       // of a connection of HTTP/2, as far as is known
}

// http2 reports whether requests are sent by HTTP/2.
func (t *target) http2() bool { return t.spec.HTTP2 && !t.plain }

// perConnect returns how many dials one connect is for.
func (t *target) perConnect() int {
	if t.http2() {
		return t.streams
	}
	return 1
}

// dial carries out one dial, which the pool has already counted. If it is for by at once, the caller
// carries out the effects of by.
func (t *target) dial(now time.Time, by *client) {
	if h := t.least(now); h != nil {
		t.lend(now, h, by)
		return
	}
	t.owed++
	t.connect()
}

// connect starts the connects that are needed for the dials owed.
func (t *target) connect() {
	for t.connecting*t.perConnect() < t.owed {
		t.connecting++
		mark := t.at.Epoch()
		dialled := func(now time.Time, conn *loop.Conn, err error) loop.Handler { return t.dialled(now, mark, conn, err) }
		t.server.loop.Dial(t.spec.Addr, t.server.shared.cfg.Session.ConnectTimeout, t.spec.Secure, dialled)
	}
}

// dialled handles the end of a connect.
func (t *target) dialled(now time.Time, mark upstream.HealthEpoch, conn *loop.Conn, err error) loop.Handler {
	switch {
	case err != nil:
		t.dialFailed(now, mark, err)
		return nil
	case t.spec.HTTP2 && (t.spec.Secure == nil || conn.Protocol() == "h2"):
		return t.greet(now, mark, conn)
	}
	if t.spec.HTTP2 {
		t.plain = true
		t.declined.Store(true)
	}
	t.connected(now)
	if t.owed == 0 { // streams have become free meanwhile
		return nil
	}
	t.owed--
	u := &upstreamConn{target: t, conn: conn, endBy: t.server.endOf(now),
		http: session.NewUpstream(&t.server.env.Settings.ResponseHead, &t.server.head)}
	u.pass(now, t.pool.Dialled(u), false)
	t.connect()
	t.note(now)
	t.serveNext(now) // the target may have been unavailable
	return u
}

// connected records that a connect has succeeded.
func (t *target) connected(now time.Time) {
	t.connecting--
	t.Failed.Store(false)
	t.at.Connected(now)
}

// dialFailed reports a failed connect to the requests that wait for the connection.
func (t *target) dialFailed(now time.Time, mark upstream.HealthEpoch, err error) {
	why := dialFault(err)
	if why == exchange.FaultResources {
		t.server.shared.lacks.warn(now, err, t.server.shared.cfg.Log)
	} else {
		t.Failed.Store(true)
		t.Fail(now, roster.ErrorCause(err))
		t.at.ConnectFailed(now, mark)
	}
	t.connecting--
	t.lendOwed(now)
	for n := t.owed - t.connecting*t.perConnect(); n > 0 && t.owed > 0; n-- {
		t.owed--
		w, again := t.pool.DialFailed()
		if again {
			t.dial(now, nil)
		}
		if w != nil {
			w.Value.unavailable(now, why)
			w.Value.apply(now)
		}
		if u, w := t.pool.Spare(); w != nil {
			u.pass(now, w, true)
		}
	}
	t.serveNext(now)
	t.note(now)
}

func dialFault(err error) exchange.FailureKind {
	var timeout net.Error
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return exchange.FaultRefused
	case errors.Is(err, loop.ErrTooManyDials), errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE),
		errors.Is(err, syscall.EADDRNOTAVAIL):
		return exchange.FaultResources
	case errors.As(err, &timeout) && timeout.Timeout():
		return exchange.FaultConnectTime
	}
	return exchange.FaultConnect
}
