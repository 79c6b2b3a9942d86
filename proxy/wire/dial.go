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

// dial starts one connect, which the pool has already counted.
func (t *target) dial() {
	mark := t.at.Generation()
	dialled := func(now time.Time, conn *loop.Conn, err error) loop.Handler { return t.dialled(now, mark, conn, err) }
	t.server.loop.Dial(t.spec.Addr, t.server.shared.cfg.Session.ConnectTimeout, t.spec.Secure, dialled)
}

// dialled handles the end of a connect.
func (t *target) dialled(now time.Time, mark upstream.Generation, conn *loop.Conn, err error) loop.Handler {
	if err != nil {
		t.dialFailed(now, mark, err)
		return nil
	}
	t.Failed.Store(false)
	t.at.Connected(now)
	u := &upstreamConn{target: t, conn: conn, endBy: t.server.endOf(now),
		http: session.NewUpstream(&t.server.env.Settings.ResponseHead, &t.server.head)}
	u.pass(now, t.pool.Dialled(u), false)
	t.note(now)
	t.serveNext(now) // the target may have been unavailable
	return u
}

// dialFailed reports a failed dial to the requests that wait for the connection.
func (t *target) dialFailed(now time.Time, mark upstream.Generation, err error) {
	why := dialFault(err)
	if why == exchange.FaultResources {
		t.server.shared.lacks.warn(now, err, t.server.shared.cfg.Log)
	} else {
		t.Failed.Store(true)
		t.Fail(now, roster.Cause(err))
		t.at.ConnectFailed(now, mark)
	}
	w, again := t.pool.DialFailed()
	if again {
		t.dial()
	}
	if w != nil {
		w.Value.unavailable(now, why)
		w.Value.apply(now)
	}
	t.serveNext(now)
	t.note(now)
}

func dialFault(err error) exchange.Fault {
	var timeout net.Error
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return exchange.FaultRefused
	case errors.Is(err, loop.ErrDialsBusy), errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE),
		errors.Is(err, syscall.EADDRNOTAVAIL):
		return exchange.FaultResources
	case errors.As(err, &timeout) && timeout.Timeout():
		return exchange.FaultConnectTime
	}
	return exchange.FaultConnect
}
