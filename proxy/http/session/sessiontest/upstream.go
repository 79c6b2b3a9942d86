package sessiontest

import (
	"io"
	"slices"
	"strconv"
	"time"

	"weir/internal/net/loop/looptest"
	"weir/proxy/http/exchange"
	"weir/proxy/http/session"
	"weir/proxy/targets/upstream"
)

const (
	connectTimeout = time.Second
	targetIdle     = 30 * time.Second
)

// A target is one target, with its pool and its connections.
//
// Owned by its world.
type target struct {
	w    *world
	name string
	at   *upstream.Target[*target]
	pool *upstream.Pool[*upstreamConn, *front]

	conns   []*upstreamConn // all open connections
	dialing int
	refuses bool // it refuses connections
}

func (w *world) addTarget() {
	t := &target{w: w, name: "target-" + itoa(w.Serial()) + ":80",
		pool: upstream.NewPool[*upstreamConn, *front](w.profile.conns, w.profile.streams, w.profile.waiters)}
	t.at = w.targets.Add(t)
}

// retire stops using the target.
func (t *target) retire() {
	t.w.targets.Retire(t.at)
	t.w.retired = append(t.w.retired, t.at)
	for _, u := range slices.Clone(t.pool.Retire()) {
		u.conn.Close()
	}
}

// dial connects, which may fail.
func (t *target) dial() {
	mark := t.at.Mark()
	t.dialing++
	took, why := t.w.Within(30*time.Millisecond), exchange.FaultNone
	switch {
	case t.refuses && !t.w.quiet:
		why = exchange.FaultRefused
	case t.w.fault(t.w.profile.connects):
		took, why = connectTimeout, exchange.FaultConnectTime
	case t.w.fault(t.w.profile.connects):
		why = exchange.FaultConnect
	case t.w.fault(t.w.profile.connects / 4):
		why = exchange.FaultResources
	}
	t.w.After(took, func() {
		t.dialing--
		if why != exchange.FaultNone {
			t.dialFailed(mark, why)
			return
		}
		t.dialled()
	})
}

func (t *target) dialled() {
	t.at.Connected(t.w.Now)
	u := &upstreamConn{target: t, conn: t.w.NewConn(false, nil),
		http: session.NewUpstream(&t.w.env.Settings.ResponseHead, &t.w.head)}
	u.conn.Handler = u
	u.conn.Peer = newService(t.w, u.conn)
	t.conns = append(t.conns, u)
	if w := t.pool.Dialled(u); w != nil {
		w.Value.serve(u, false)
		w.Value.apply()
		return
	}
	u.restOrLeave()
}

func (t *target) dialFailed(mark upstream.Mark, why exchange.Fault) {
	if why != exchange.FaultResources {
		t.at.ConnectFailed(t.w.Now, mark)
	}
	w, again := t.pool.DialFailed()
	if again {
		t.dial()
	}
	if w != nil {
		f := w.Value
		f.log.Note(t.w.Now, "connect failed", int64(why), why.String())
		f.unavailable(why)
		f.apply()
	}
}

// An upstreamConn is one connection to a target.
//
// Owned by its world.
type upstreamConn struct {
	target *target
	conn   *looptest.Conn
	owner  *front
	ended  bool
	left   *exchange.Abandoned     // of one whose client has disconnected, or nil
	wait   upstream.Waiter[*front] // has its place for streams, if it had one

	http   session.Upstream
	shown  int // bytes of the answer that were passed to the session
	reused bool
}

// holder returns the front whose exchange uses the connection, or nil.
func (u *upstreamConn) holder() *front {
	if f := u.owner; f != nil && f.upstream == u {
		return f
	}
	return nil
}

func (u *upstreamConn) Data(b []byte) int {
	f := u.holder()
	switch {
	case u.left != nil:
		return u.drop(b)
	case f == nil:
		u.conn.Close()
		return len(b)
	}
	n := f.s.HandleUpstream(u.target.w.Now, &u.http, b)
	if n < len(b) {
		f.log.Note(u.target.w.Now, "of target's bytes taken", int64(n), "of "+itoa(len(b)))
	}
	if n > 0 || !f.conn.Full() {
		u.shown += len(b)
	}
	f.returns += n
	f.apply()
	return n
}

func (u *upstreamConn) End(unread int) {
	if f := u.holder(); f != nil && f.s.HandleUpstreamEnd(u.target.w.Now, unread) {
		f.apply()
		return
	}
	u.ended = true
	u.conn.Close()
}

func (u *upstreamConn) write(b []byte) {
	if len(b) == 0 {
		return
	}
	f := u.owner
	f.log.Note(u.target.w.Now, "to target", int64(len(b)), start(b))
	f.collects = 0
	full := u.conn.Full()
	u.conn.Write(b)
	f.checkUnsent(u.conn, len(b))
	if !full && u.conn.Full() {
		u.target.w.saw("sides that took nothing")
		f.s.HandleTargetFull(u.target.w.Now, true)
	}
}

func (u *upstreamConn) Writable() {
	f := u.holder()
	if f == nil {
		return
	}
	f.s.HandleTargetFull(u.target.w.Now, false)
	f.apply()
}

func (u *upstreamConn) Expired() {
	switch {
	case u.left != nil && u.target.w.Now.Before(u.left.By):
		u.conn.SetDeadline(u.left.By)
	case u.holder() == nil:
		u.conn.Close()
	default:
		u.rest()
	}
}

func (u *upstreamConn) Closed(err error) {
	t := u.target
	t.conns = slices.DeleteFunc(t.conns, func(other *upstreamConn) bool { return other == u })
	if t.pool.Lost(u) {
		t.dial()
	}
	u.forget()
	if u.ended {
		err = io.EOF
	}
	if f := u.owner; f != nil {
		held := f.upstream == u
		u.owner, f.upstream, f.own, f.last = nil, nil, nil, u
		t.pool.End(&f.wait)
		if held {
			f.s.HandleUpstreamClosed(t.w.Now, &u.http, err)
			f.apply()
		}
	}
}

func (u *upstreamConn) free() {
	t := u.target
	if w := t.pool.Release(u); w != nil {
		w.Value.serve(u, true)
		w.Value.apply()
		return
	}
	u.restOrLeave()
}

// restOrLeave keeps the connection idle, or closes it if the pool has no place for it.
func (u *upstreamConn) restOrLeave() {
	if u.target.pool.Leaving(u) {
		u.conn.Close()
		return
	}
	u.rest()
}

func (u *upstreamConn) rest() { u.conn.SetDeadline(u.target.w.Now.Add(targetIdle)) }

// admit lets a request wait for a place at the target, of which the last piece was not sent.
func (f *front) admit() {
	f.admits++
	n, u := f.admits, f.upstream
	f.w.After(f.w.Within(50*time.Millisecond), func() {
		if n == f.admits && u == f.upstream {
			f.w.saw("requests whose last piece waited")
			f.s.Exchange.HandleAdmitted(f.w.Now)
			f.apply()
		}
	})
}

// abandon makes u read the answer to a request of f.
func (u *upstreamConn) abandon(f *front, left *exchange.Abandoned) {
	rest := *left
	u.left = &rest
	f.wait.Hand(&u.wait)
	if left.Sent.IsZero() || left.By.IsZero() || !left.Client.IsValid() {
		f.wrong("a request is abandoned that was not sent: %+v", left)
	}
	u.conn.SetDeadline(left.By)
}

// drop reads bytes of an answer that nobody waits for.
func (u *upstreamConn) drop(b []byte) int {
	n, end := u.http.HandleAbandoned(u.left, b)
	looptest.Poison(b[:n])
	switch end {
	case session.AbandonedKeep:
		u.target.w.saw("connections used again after their client left")
		u.forget()
		u.checkAnswered()
		u.free()
	case session.AbandonedClose:
		u.conn.Close()
	}
	return n
}

// checkAnswered checks that the target has sent all of its answer.
func (u *upstreamConn) checkAnswered() {
	if p, ok := u.conn.Peer.(*service); ok && (p.announced || len(p.out) > 0) {
		u.target.w.failed(u.conn.Log, "a connection is kept on which an answer is under way, or that the target closes")
	}
}

// forget ends the abandoned exchange on u, if there is one.
func (u *upstreamConn) forget() {
	u.target.pool.End(&u.wait)
	u.left = nil
}

func itoa(n int) string { return strconv.Itoa(n) }
