package loop

import (
	"bytes"
	"fmt"
	"io"
	"time"

	"weir/internal/net/loop/looptest"
)

// simBytes returns n bytes of a stream from the given one on. All streams are the same, so that what
// is lost or twice is seen.
func simBytes(from, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte((from + i) ^ (from+i)>>8)
	}
	return b
}

// A simActor is both ends of one connection: its Handler, and its peer.
//
// Owned by its world.
type simActor struct {
	w     *simWorld
	name  int
	c     *Conn
	s     *looptest.Socket
	log   looptest.History
	pace  time.Duration
	ender bool

	accepted bool // not dialled

	// The Handler's.
	made, inside, told bool
	lazy               bool // holds most of what it is shown
	holds, pumped      bool // left something unread; asked to be shown it again
	shown, wrote       int  // bytes taken, and given to Write
	intent             ending
	intended           time.Time
	closes             int // how often Closed was told

	// The peer's.
	toSend  int
	arrived int       // bytes sent
	taken   int       // bytes taken
	deaf    bool      // it takes nothing any more
	takenAt time.Time // when it last took something
}

func (a *simActor) note(format string, args ...any) {
	a.log.Note(a.w.Now(), fmt.Sprintf(format, args...), 0, "")
}

func (a *simActor) law(holds bool, format string, args ...any) {
	if !holds {
		a.w.failed(a, format, args...)
	}
}

// accept makes the Handler; it may refuse.
func (a *simActor) accept(_ time.Time, c *Conn) Handler {
	a.c = c
	if a.w.Fault(0.03) {
		return nil
	}
	a.made = true
	a.act(0.1)
	if a.ender {
		return simEnder{simHandler{a}}
	}
	return simHandler{a}
}

// live plans what both ends do.
func (a *simActor) live() {
	w := a.w
	a.toSend, a.lazy = w.IntN(48<<10), w.Odds(0.3)
	w.After(w.Within(a.pace), a.send)
	w.After(w.Within(a.pace), a.take)
	w.After(w.Within(2*time.Second), a.work)
	if w.Odds(0.4) {
		w.After(w.Within(3*time.Second), func() { a.deaf = !w.Quiet })
	}
	if w.Odds(0.2) {
		w.After(w.Within(3*time.Second), a.breakOff)
	}
}

// breakOff resets the connection.
func (a *simActor) breakOff() {
	if !a.w.Quiet {
		a.s.Reset()
	}
}

// send sends a piece, and in the end ends in one of many ways.
func (a *simActor) send() {
	w, s := a.w, a.s
	if s.Closed || !s.Lost.IsZero() || s.Ended {
		return
	}
	if n := min(1+w.IntN(8<<10), s.Room(), a.toSend); n > 0 {
		s.Send(simBytes(a.arrived, n))
		a.arrived += n
		a.toSend -= n
	}
	if a.toSend > 0 {
		w.After(w.Within(a.pace), a.send)
		return
	}
	switch w.IntN(8) {
	case 0, 1, 2:
		a.finish(false)
	case 3, 4:
		a.finish(true)
	case 5:
		a.breakOff()
	}
}

// finish half closes, or closes.
func (a *simActor) finish(whole bool) {
	w, s := a.w, a.s
	if whole {
		s.Close()
	} else {
		s.End()
	}
	if s.Lost.IsZero() && w.Odds(0.4) {
		w.After(w.Within(3*time.Second), a.breakOff)
	}
}

// take takes a piece of what was written.
func (a *simActor) take() {
	w, s := a.w, a.s
	if !s.Lost.IsZero() || s.Gone || s.Closed && (s.Cut || a.taken == s.Written) {
		return
	}
	if s.Sent() > 0 && !a.deaf {
		b := s.Receive(1 + w.IntN(6<<10))
		a.law(bytes.Equal(b, simBytes(a.taken, len(b))), "of what is written, bytes from %d on are others", a.taken)
		a.taken += len(b)
		a.takenAt = time.Now()
	}
	w.After(w.Within(a.pace), a.take)
}

// work has the Handler do something by itself, now and then.
func (a *simActor) work() {
	if a.closes > 0 || a.w.Quiet {
		return
	}
	a.w.l.Post(func(time.Time) { a.act(1) })
	a.w.After(a.w.Within(2*time.Second), a.work)
}

// act does something to the Conn with a chance of p.
func (a *simActor) act(p float64) {
	w, c := a.w, a.c
	if !a.made || a.closes > 0 || w.Quiet || !w.Odds(p) {
		return
	}
	switch n := w.IntN(100); {
	case n < 50:
		a.write(1 + w.IntN(12<<10))
	case n < 65:
		a.pump()
	case n < 75:
		c.SetDeadline(c.loop.now.Add(w.Within(time.Second)))
	case n < 80:
		c.SetDuplex(w.Odds(0.8))
		c.SetHeld(w.Odds(0.3))
	case n < 85:
		a.note("CloseWrite")
		c.CloseWrite()
	default:
		for again := true; again; again = w.Odds(0.3) {
			a.end([]ending{endingDrain, endingDrain, endingLinger, endingLinger, endingCut, endingNow, endingReset}[w.IntN(7)])
		}
	}
}

func (a *simActor) write(n int) {
	w := a.w
	b := simBytes(a.wrote, n)
	if c := a.c; c.state != stateClosed && a.intent == endingNone && c.sending == sendingOpen {
		a.wrote += n
	}
	a.c.SetBatch(WriteBatching(w.IntN(int(BatchRound) + 1)))
	a.note("writes %d, batch %d", n, a.c.batch)
	was := a.inside
	a.inside = true
	a.c.Write(b)
	a.inside = was
}

func (a *simActor) pump() {
	if a.c.Pump(); a.c.pumping {
		a.pumped = true
	}
}

func (a *simActor) end(how ending) {
	a.note("ends: %v", how)
	if how > a.intent && a.c.state != stateClosed {
		a.intent, a.intended = how, a.c.loop.now
	}
	map[ending]func(){endingDrain: a.c.CloseDrained, endingLinger: a.c.CloseLinger, endingCut: a.c.CloseIncomplete,
		endingNow: a.c.Close, endingReset: a.c.Abort}[how]()
}

// calmDown has the Handler and the peer do what they have left undone.
func (a *simActor) calmDown() {
	a.deaf = false
	a.w.l.Post(func(time.Time) {
		if a.made && a.closes == 0 && a.holds {
			a.pump()
		}
	})
	for i := range 2 { // finds a reset that nobody else would; the first may cause it
		a.w.After(time.Duration(1+i)*time.Second, func() {
			a.w.l.Post(func(time.Time) {
				if a.made && a.closes == 0 {
					a.write(1)
				}
			})
		})
	}
}

// checkTold: nobody is left in the dark about a peer that has ended.
func (a *simActor) checkTold() {
	if !a.made || a.closes > 0 {
		return
	}
	a.law(a.arrived == a.shown, "%d of %d bytes were shown", a.shown, a.arrived)
	a.law(!a.s.Ended || a.told, "the peer has ended, and the Handler does not know")
	shut := a.c.sending == sendingShut || a.c.sending == sendingShutting // and nothing tells
	a.law(a.s.Lost.IsZero() || shut && a.told, "the peer has reset, and the Handler does not know")
}

// checkBound: a connection that is to end is closed within its bound.
func (a *simActor) checkBound() {
	if !a.made || a.closes > 0 {
		return
	}
	late := a.s.Broken.Add(simEnrolMax + time.Second)
	mayRead := a.ender && (!a.c.accepted || a.c.duplex) // what is unread is of use without an answer
	a.law(mayRead || a.s.Broken.IsZero() || !time.Now().After(late), "a broken write is not noticed")
	if a.intent == endingNone {
		return
	}
	a.law(a.intent < endingNow, "a connection is not closed at once")
	since := a.intended
	if a.takenAt.After(since) {
		since = a.takenAt
	}
	bound := since.Add(writeStallDefault + lingerMax + simEnrolMax + time.Second)
	if lost := a.s.Lost; !lost.IsZero() {
		if lost.Before(a.intended) {
			lost = a.intended
		}
		if soon := lost.Add(simEnrolMax + time.Second); soon.Before(bound) {
			bound = soon
		}
	}
	a.law(!time.Now().After(bound), "a connection that is to end does not end")
}

// checkClosed is told how the connection was closed.
func (a *simActor) checkClosed(err error) {
	c, s, w := a.c, a.s, a.w
	if c.Unacked() {
		w.tally.Unheard++
		a.law(s.Ended && !c.accepted && a.taken < a.wrote, "unheard, and the peer has taken %d of %d bytes", a.taken, a.wrote)
	}
	if a.intent == endingNone {
		a.law(err != nil || s.Faulty || c.ending != endingNone, "closed by nobody's wish, and not by the peer: %v", err)
		a.law(err != io.EOF || s.Ended, "told of an end that did not come")
		return
	}
	a.law(err == nil, "closed as wished, and told %v", err)
	switch {
	case s.Faulty:
		w.tally.Faulty++
		return
	case !s.Lost.IsZero() || s.Gone:
		w.tally.Resets++
		return
	}
	lingered := !c.lingerEnd.IsZero()
	if a.intent >= endingNow {
		return
	}
	if c.ending >= endingNow && !lingered {
		a.law(!c.loop.now.Before(a.takenAt.Add(writeStallDefault-2*watchStepMax)),
			"closed before its time, with %d of %d bytes sent", s.Written, a.wrote)
		return
	}
	a.law(s.Written == a.wrote, "closed with %d of %d bytes sent", s.Written, a.wrote)
	if a.intent == endingLinger {
		enough := lingered && !c.loop.now.Before(c.lingerEnd.Add(lingerIdleMax-lingerMax))
		a.law(!s.Cut || enough, "a reset overtakes the answer")
	}
	w.tally.Clean++
}

// A simHandler is the Handler of an actor.
type simHandler struct{ *simActor }

// called is true when a Handler may be called.
func (a *simActor) called(what string) {
	a.law(!a.inside, "%s comes from inside another call", what)
	a.law(a.closes == 0, "%s comes after Closed", what)
}

func (h simHandler) Data(_ time.Time, b []byte) int {
	a, w := h.simActor, h.w
	a.called("Data")
	a.law(a.intent == endingNone, "Data comes to a Handler that has closed")
	a.law(!a.c.accepted || a.c.duplex || a.c.Unsent() <= w.g.cfg.OutboundMax, "shown more while %d bytes are unsent",
		a.c.Unsent())
	a.law(a.shown+len(b) <= a.arrived && bytes.Equal(b, simBytes(a.shown, len(b))),
		"of what is shown, bytes from %d on are others", a.shown)
	n := len(b)
	if !w.Quiet {
		n = []int{n, n, n, w.IntN(n + 1), 0}[w.IntN(5)]
		if a.lazy && w.Odds(0.8) {
			n = 0
		}
	}
	a.pumped = false
	if a.holds = n < len(b); a.holds && (!a.lazy || w.Odds(0.2)) {
		w.After(w.Within(time.Second), func() { w.l.Post(func(time.Time) { a.pump() }) })
	}
	a.note("is shown %d, takes %d", len(b), n)
	a.shown += n
	if w.Fault(0.002) {
		a.intent, a.intended = endingNow, a.c.loop.now
		panic("a Handler panics")
	}
	a.inside = true
	defer func() { a.inside = false }()
	a.act(0.3)
	return n
}

func (h simHandler) Expired(time.Time) {
	h.called("Expired")
	h.act(0.3)
}

func (h simHandler) Writable(time.Time) {
	h.called("Writable")
	h.act(0.3)
}

func (h simHandler) Closed(_ time.Time, err error) {
	h.called("Closed")
	h.note("is closed: %v", err)
	h.closes++
	h.checkClosed(err)
}

// A simEnder is likewise, and a HalfCloser.
type simEnder struct{ simHandler }

func (h simEnder) End(_ time.Time, unread int) {
	a := h.simActor
	a.called("End")
	a.law(!a.told, "the end is told twice")
	a.law(a.intent == endingNone, "End comes to a Handler that has closed")
	a.law(a.s.Ended && unread == a.arrived-a.shown, "the end is told with %d bytes unread of %d shown of %d", unread,
		a.shown, a.arrived)
	a.law(unread == 0 || !a.pumped, "the end is told before what is unread is shown again")
	a.told = unread == 0
	if a.told {
		a.w.tally.Told++
	}
	a.note("is told of the end, %d unread", unread)
	a.act(0.3)
}
