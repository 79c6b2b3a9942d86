package wire

import (
	"errors"
	"io"
	"os"
	"slices"
	"time"

	"weir/internal/net/loop"
	"weir/proxy/http/exchange"
	"weir/proxy/http/mux"
	"weir/proxy/targets/roster"
	"weir/proxy/targets/upstream"
)

// A lender is a connection of HTTP/2 to a target. It lends streams to exchanges: the pool knows each as a
// connection that serves one exchange, so that what bounds connections bounds exchanges.
//
// Owned by its loop.
type lender struct {
	target *target
	conn   *loop.Conn
	m      *mux.Upstream
	mark   upstream.HealthEpoch // of the connect
	ready  bool                 // the target has sent its settings
	late   bool                 // it has not sent them in time
	closed bool
	endBy  time.Time // lends nothing from then on; zero means never
	rested time.Time // when it last had no streams
	tickBy time.Time // the deadline as set
	posted bool      // resume is scheduled
}

// With batchFrom or more open streams, what is sent over HTTP/2 is collected for a round of the loop: with
// fewer, waking the loop costs more than writing.
const batchFrom = 4

// greet begins HTTP/2 on a new connection. The connect ends when the target has sent its settings.
func (t *target) greet(now time.Time, mark upstream.HealthEpoch, conn *loop.Conn) loop.Handler {
	h := &lender{target: t, conn: conn, m: mux.NewUpstream(now, &t.server.lending, conn.Secure()), mark: mark,
		endBy: t.server.endOf(now), rested: now}
	conn.Write(h.m.Control())
	conn.SetDeadline(now.Add(t.server.shared.cfg.Session.ConnectTimeout))
	return h
}

// least returns the connection with the fewest streams of those that have one free, or nil.
func (t *target) least(now time.Time) (least *lender) {
	for _, h := range t.lenders {
		if h.m.Free() > 0 && !h.old(now) && (least == nil || h.m.Lent() < least.m.Lent()) {
			least = h
		}
	}
	return least
}

// lend gives a stream of h to the next waiter; see dial.
func (t *target) lend(now time.Time, h *lender, by *client) {
	u := t.server.takeStream()
	u.target, u.of = t, h
	h.m.Lend(now, &u.stream)
	t.lent.Add(1)
	switch w := t.pool.Dialled(u); {
	case w == nil:
		u.giveBack(now)
	case w.Value.x.Upgrades(): // it was not known that the target uses HTTP/2
		w.Value.unavailable(now, exchange.FaultUpgrade)
		u.giveBack(now)
		w.Value.apply(now)
	case w.Value.client == by:
		by.serve(now, u, h.m.Served())
	default:
		w.Value.serve(now, u, h.m.Served())
		w.Value.apply(now)
	}
	t.note(now)
}

// lendOwed lends streams that are free for the dials owed.
func (t *target) lendOwed(now time.Time) {
	for t.owed > 0 {
		h := t.least(now)
		if h == nil {
			return
		}
		t.owed--
		t.lend(now, h, nil)
	}
}

// takeStream returns memory for a stream.
func (s *loopServer) takeStream() *upstreamConn {
	last := len(s.streams) - 1
	if last < 0 {
		return new(upstreamConn)
	}
	u := s.streams[last]
	s.streams = s.streams[:last]
	return u
}

// giveBack ends a stream that was lent, which may be one of the next exchange's from now on.
func (u *upstreamConn) giveBack(now time.Time) {
	t := u.target
	h := u.endStream()
	u.vacate(now)
	t.lendOwed(now)
	h.rest(now)
	t.note(now)
	if len(t.bound) > 0 || !t.server.queue.Idle() {
		t.freed() // later: the exchange may need the place for another stream
	}
}

// endStream ends a stream that was lent, without giving its place back, and returns its connection.
func (u *upstreamConn) endStream() *lender {
	h := u.of
	h.write(u.stream.Return())
	u.target.lent.Add(-1)
	u.of = nil
	return h
}

// vacate gives the place of a stream that has ended back.
func (u *upstreamConn) vacate(now time.Time) {
	t := u.target
	again := t.pool.Lost(u)
	*u = upstreamConn{stream: u.stream, works: u.works}
	t.server.streams = append(t.server.streams, u)
	if again {
		t.dial(now, nil)
	}
}

// rest records that the connection may have no streams from now on.
func (h *lender) rest(now time.Time) {
	switch {
	case h.m.Lent() > 0 || h.closed:
	case h.m.Ended():
		h.conn.CloseDrained()
	default:
		h.rested = now
		h.arm(now)
	}
}

// retire lends nothing more, and closes the connection when all streams are given back.
func (h *lender) retire() {
	if h.m.HandleRetired(); h.m.Ended() {
		h.conn.CloseDrained()
	}
}

func (h *lender) old(now time.Time) bool { return !h.endBy.IsZero() && !now.Before(h.endBy) }

// arm sets the deadline.
func (h *lender) arm(now time.Time) {
	cfg := &h.target.server.shared.cfg
	by := now.Add(cfg.TargetHTTP2.SilenceTimeout / 4)
	if at := h.rested.Add(cfg.TargetIdle); h.m.Lent() == 0 && at.Before(by) {
		by = at
	}
	if h.tickBy.IsZero() || by.Before(h.tickBy) {
		h.tickBy = by
		h.conn.SetDeadline(by)
	}
}

// Expired looks after the connection.
func (h *lender) Expired(now time.Time) {
	t := h.target
	if !h.ready {
		h.late = true
		h.conn.Abort()
		return
	}
	h.tickBy = time.Time{}
	frames, stalled := h.m.HandleTick(now)
	h.write(frames)
	for _, x := range stalled {
		x.HandleUpstreamReset(now, false)
		x.Owner.(*client).apply(now)
	}
	switch {
	case h.m.Err() != nil:
		h.conn.Abort()
	case h.old(now):
		t.server.counts.Aged.Inc()
		h.endBy = time.Time{} // it is counted once
		h.retire()
	case h.m.Lent() == 0 && !now.Before(h.rested.Add(t.server.shared.cfg.TargetIdle)):
		h.retire()
	}
	h.arm(now)
}

// Data passes bytes on, exchange by exchange.
func (h *lender) Data(now time.Time, b []byte) (n int) {
	for {
		read, x := h.m.Handle(now, b[n:])
		n += read
		if x == nil {
			break
		}
		x.Owner.(*client).apply(now)
		if h.m.Ended() { // the rest concerns nobody
			n = len(b)
			break
		}
	}
	if !h.ready && h.m.Ready() {
		h.begin(now)
	}
	h.update(now)
	h.target.lendOwed(now) // the target may allow more streams
	return n
}

// begin lends the streams of a connection whose target has sent its settings. Without any the connect has failed.
func (h *lender) begin(now time.Time) {
	t := h.target
	if h.m.Free() == 0 {
		h.conn.CloseDrained()
		return
	}
	h.ready, t.plain = true, false
	t.connected(now)
	t.lenders = append(t.lenders, h)
	t.lending.Store(int64(len(t.lenders)))
	t.dials.streams = h.m.Free()
	h.arm(now)
	t.lendOwed(now)
	if t.at.Status(now) == upstream.Draining { // it has left the list during the connect
		h.retire()
	}
	t.connect()
	t.note(now)
	t.serveNext(now)
}

// update sends what streams have kept and the frames that answer and credit what was read, and closes the
// connection when it has ended.
func (h *lender) update(now time.Time) {
	for more := true; more && !h.conn.Full(); {
		frames, resumed := h.m.Flush(now)
		more = len(frames) > 0
		h.write(frames)
		for _, x := range resumed {
			c := x.Owner.(*client)
			c.carrier.HandleTargetFull(now, false)
			c.apply(now)
		}
	}
	if !h.conn.Full() || h.m.Ended() { // otherwise Writable is called
		h.write(h.m.Control())
	}
	if h.m.Ended() {
		h.conn.CloseDrained()
	}
}

// write sends frames.
func (h *lender) write(frames []byte) {
	if len(frames) == 0 {
		return
	}
	batch := loop.BatchTurn
	if h.m.Lent() >= batchFrom {
		batch = loop.BatchRound
	}
	h.conn.SetBatch(batch)
	h.conn.Write(frames)
	h.m.HandleFull(h.conn.Full())
}

// send sends a part of a request on the stream u; see upstreamConn.send.
func (h *lender) send(now time.Time, u *upstreamConn, fx *exchange.Effects) (more bool) {
	s, c := u.target.server, u.owner
	out, err := u.stream.Append(now, s.up[:0], c.x, fx, u.target.spec.Host)
	s.up = out
	h.write(out)
	switch {
	case errors.Is(err, mux.ErrHead):
		c.x.HandleHeadTooLarge(now)
	case err != nil:
		c.x.HandleUpstreamReset(now, true)
	case u.stream.Full():
		c.carrier.HandleTargetFull(now, true)
	}
	return err != nil
}

// Writable continues to send.
func (h *lender) Writable(now time.Time) {
	h.m.HandleFull(false)
	h.update(now)
	h.target.lendOwed(now)
}

// pump continues with answers whose clients accept more, after the current call.
func (h *lender) pump() {
	if !h.posted {
		h.posted = true
		h.target.server.loop.Post(h.resume)
	}
}

func (h *lender) resume(now time.Time) {
	h.posted = false
	for x := h.m.Resume(now); x != nil; x = h.m.Resume(now) {
		x.Owner.(*client).apply(now)
	}
	h.update(now)
}

// End handles that the target sends no more.
func (h *lender) End(time.Time, int) { h.conn.Close() }

// Closed reports the end of the connection to the exchanges that wait for answers, and to the pool.
func (h *lender) Closed(now time.Time, err error) {
	t := h.target
	h.closed = true
	if !h.ready {
		t.dialFailed(now, h.mark, h.connectError(err))
		return
	}
	t.lenders = slices.DeleteFunc(t.lenders, func(o *lender) bool { return o == h })
	t.lending.Store(int64(len(t.lenders)))
	h.m.HandleRetired()
	if err := h.m.Err(); err != nil {
		t.noteGarbled(err)
	}
	for x := range h.m.Exchanges {
		c := x.Owner.(*client)
		if c.upstream.stream.Whole() { // its client has not read it yet
			continue
		}
		u := c.upstream
		c.upstream = nil
		if c.gateBy {
			c.stopWaiting(now)
		}
		t.over(now, &c.wait)
		u.giveBack(now)
		x.HandleUpstreamClosed(now, false)
		c.apply(now)
	}
	t.note(now)
	t.serveNext(now)
}

// connectError returns why a connect has failed whose connection was closed with err.
func (h *lender) connectError(err error) error {
	switch {
	case h.late:
		return os.ErrDeadlineExceeded
	case h.m.Err() == nil && h.m.Ready():
		return roster.ErrNoStreams
	case h.m.Err() != nil, err == nil, errors.Is(err, io.EOF):
		return roster.ErrNotHTTP2
	}
	return err
}
