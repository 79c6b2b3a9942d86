package wiretest

import (
	"io"
	"net/http"
	"time"

	"weir/internal/net/http1"
	"weir/internal/net/loop/looptest"
	"weir/proxy/http/exchange"
	"weir/proxy/http/session"
)

// A ClientView is what a World knows of one client connection, and what it expects of it.
//
// Owned by its World.
type ClientView struct {
	Log looptest.History

	w        *World
	caller   *caller
	accepted bool
	asked    *request // the limiter was asked about it, and no outcome was reported yet
	deciding bool     // the limiter has not answered
	owning   bool     // an own endpoint has not answered
	storing  bool     // the queue has not answered
	ended    bool     // the session has closed the connection
	away     bool     // the connection is gone
	tunnels  bool     // it has become a tunnel
	again    bool     // its request has been tried before
}

// A ProxyView is what the proxy has of a client connection.
type ProxyView struct {
	Closed   bool      // the connection is closed
	Upstream bool      // there is a connection to a target,
	Own      bool      // one that is kept for the next request,
	Waits    bool      // or a wait for one, or for a place
	Chosen   bool      // a target is chosen
	Stalls   bool      // one of the connections is full
	Deadline time.Time // of the session
}

// Wrong reports a violation.
func (f *ClientView) Wrong(format string, args ...any) { f.w.failed(&f.Log, format, args...) }

// connect opens a connection for a caller.
func (w *World) connect(c *caller) {
	f := &ClientView{w: w, caller: c}
	c.front = f
	c.conn = w.socket("client ", w.clients[w.IntN(len(w.clients))], &f.Log)
	c.conn.Peer = c
	f.Log.Name = "client connection " + itoa(c.conn.ID)
	w.fronts[c.conn.Addr] = f
	w.Listener.Connect(c.conn)
}

// Effects checks that the effects of the session are allowed in its state, and notes them.
func (f *ClientView) Effects(fx *session.Effects, v *ProxyView) {
	const nothing = exchange.ReleaseNone
	sends := len(fx.Upstream)+len(fx.Upload) > 0 || fx.Forward != nil || fx.Uploaded
	speaks := len(fx.Client) > 0 || fx.Own != nil || sends || fx.EndClient || fx.EndUpstream
	switch {
	case f.ended && (speaks || fx.Acquire != exchange.AcquireNone || fx.Release != nothing ||
		fx.Close != session.CloseNone):
		f.Wrong("something is wanted after the session has closed the connection: %+v", *fx)
	case v.Closed && (speaks || fx.Close != session.CloseNone || fx.Acquire != exchange.AcquireNone &&
		fx.Acquire != exchange.AcquireCancel):
		f.Wrong("something is wanted for a client that is gone: %+v", *fx)
	case (sends || fx.Release != nothing || fx.EndUpstream) && !v.Upstream:
		f.Wrong("something is wanted of a connection to a target that there is not: %+v", *fx)
	case fx.Acquire == exchange.AcquireCancel && v.Chosen && !v.Waits:
		f.Wrong("a wait is given up that there is not")
	case fx.Acquire != exchange.AcquireNone && fx.Acquire != exchange.AcquireCancel && v.Upstream &&
		fx.Release == nothing:
		f.Wrong("a second connection is wanted")
	}
	f.away = v.Closed
	f.note(fx)
	if fx.Report != nil {
		f.report(fx.Report)
	}
	if fx.Close != session.CloseNone {
		f.ended = true
		if !v.Deadline.IsZero() {
			f.Wrong("a deadline is left on a closed session")
		}
	}
}

// note notes what the effects say.
func (f *ClientView) note(fx *session.Effects) {
	now := f.w.Now()
	if d := fx.Decided; d != nil && f.asked != nil {
		if f.asked.postponed = d.Postponed; d.Postponed && (f.asked.allowed || f.asked.storeAway) {
			f.Wrong("request %d is to be delivered later and was not refused", f.asked.id)
		}
	}
	if fx.Acquire != exchange.AcquireNone {
		f.Log.Note(now, "acquire", int64(fx.Acquire), "")
	}
	switch fx.Acquire {
	case exchange.AcquireAny:
		f.again = false
	case exchange.AcquireFresh:
		f.checkReplay()
		f.again = true
	case exchange.AcquireOther:
		f.again = true
	case exchange.AcquireNone, exchange.AcquireCancel:
	}
	if fx.Release != exchange.ReleaseNone {
		f.Log.Note(now, "release", int64(fx.Release), "")
	}
	if fx.Release == exchange.ReleaseDrained {
		f.w.Saw("tunnels")
	}
	if fx.Close != session.CloseNone {
		f.Log.Note(now, "session closes", int64(fx.Close), "")
	}
	f.owning = f.owning && len(fx.Client) == 0 && fx.Report == nil || fx.Own != nil
}

// checkReplay checks that the request may be sent again.
func (f *ClientView) checkReplay() {
	r := f.asked
	f.w.Saw("requests sent again")
	switch {
	case r == nil:
		f.Wrong("sent again without having been sent")
	case r.replayed:
		f.Wrong("request %d is sent again a second time", r.id)
	case r.body > bufferMax || !http1.MethodOf([]byte(r.method)).Idempotent():
		f.Wrong("request %d is sent again: %s with %d bytes of body", r.id, r.method, r.body)
	default:
		r.replayed = true
	}
}

// Rests checks that the session waits for something that will happen: bytes, an answer of limiter,
// queue or own endpoint, or a deadline.
func (f *ClientView) Rests(v *ProxyView) {
	if f.ended {
		return
	}
	if v.Deadline.IsZero() && !f.deciding && !f.owning && !f.storing && !v.Stalls {
		f.Wrong("nothing would ever wake the session")
	}
	if !v.Upstream && f.tunnels {
		f.Wrong("a tunnel without a target")
	}
}

// Closed checks that nothing is left of a session whose client is gone.
func (f *ClientView) Closed(v *ProxyView) {
	f.away = true
	delete(f.w.fronts, f.caller.conn.Addr)
	switch {
	case v.Upstream:
		f.Wrong("the client is gone, and the connection to a target is still held")
	case v.Own:
		f.Wrong("the client is gone, and its own connection to a target is still there")
	case v.Waits:
		f.Wrong("the client is gone, and the session still waits for a target")
	case !v.Deadline.IsZero():
		f.Wrong("the client is gone, and a deadline is left")
	case f.asked != nil && !f.deciding && !f.storing:
		f.Wrong("the client is gone, and what became of request %d was not reported", f.asked.id)
	}
}

// Own is the handler of the own endpoints. It answers later.
func (w *World) Own(rw http.ResponseWriter, r *http.Request) {
	content, err := io.ReadAll(r.Body)
	answer := make(chan *exchange.OwnResponse, 1)
	w.Later("own "+r.Header.Get("X-Req"), func() {
		w.After(w.Within(50*time.Millisecond), func() { answer <- w.checkOwn(r, content, err) })
	})
	a := <-answer
	for _, field := range a.Fields {
		rw.Header().Set(field[0], field[1])
	}
	rw.WriteHeader(a.Status)
	_, _ = rw.Write(a.Body)
}
