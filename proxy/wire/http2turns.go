package wire

import (
	"slices"
	"time"
)

// postpone reports whether s gets a connection to a target later: what follows may reset it, and then the target
// need not work for it (CVE-2023-44487, CVE-2025-8671). Beyond beginMax a stream waits for its connection's turn.
func (h *http2Conn) postpone(now time.Time, s *http2Stream) bool {
	if !h.postpones && !h.waits && h.mayBegin(now) {
		return false
	}
	s.postponed = true
	h.postponed = append(h.postponed, s)
	if !h.postpones { // otherwise begin follows
		h.server.awaitTurn(h)
	}
	return true
}

// beginMax bounds the streams of a connection that get connections to targets in one turn of the loop. The others
// follow after the other connections that are ready, so a client that sends many requests at once delays only its own.
const beginMax = 8

// mayBegin counts a stream, and reports whether it is one of those that may begin in this turn.
func (h *http2Conn) mayBegin(now time.Time) bool {
	if !now.Equal(h.turn) {
		h.turn, h.begun = now, 0
	}
	h.begun++
	return h.begun <= beginMax
}

// begin gets connections for the first streams that were postponed, unless the connection of all has failed since, or
// waits for its turn.
func (h *http2Conn) begin(now time.Time) {
	h.postpones = false
	if h.waits {
		return
	}
	n := 0
	for ; n < len(h.postponed) && !h.m.Failed(); n++ {
		s := h.postponed[n]
		if !s.postponed || s.of != h { // it may be listed twice, or be another connection's, since streams are used again
			continue
		}
		if !h.mayBegin(now) {
			break
		}
		s.postponed = false
		s.seek(now, false)
		s.apply(now)
	}
	if h.postponed = slices.Delete(h.postponed, 0, n); len(h.postponed) > 0 && !h.m.Failed() {
		h.server.awaitTurn(h)
	}
}

// turnPause is the time between two turns of connections that wait for theirs. gnet runs what a turn has posted before
// it polls. That takes less than this pause, so the loop has polled before the next turn.
const turnPause = 100 * time.Microsecond

// awaitTurn lets h begin its next streams after those of the connections that wait already.
func (s *loopServer) awaitTurn(h *http2Conn) {
	if h.waits {
		return
	}
	h.waits = true
	if s.behind = append(s.behind, h); len(s.behind) == 1 {
		s.setTurn()
	}
}

// setTurn sets the alarm for the next turn. The clock is read again, because a turn of the loop may take longer than
// turnPause.
func (s *loopServer) setTurn() {
	if s.turns == nil {
		s.turns = s.loop.NewAlarm(s.nextTurn)
	}
	s.turns.Set(time.Now().Add(turnPause))
}

// nextTurn lets the connection that has waited longest begin its next streams.
func (s *loopServer) nextTurn(now time.Time) {
	s.behind = slices.DeleteFunc(s.behind, func(h *http2Conn) bool { return h.m.Failed() }) // or was closed
	if len(s.behind) == 0 {
		return
	}
	h := s.behind[0]
	s.behind = slices.Delete(s.behind, 0, 1)
	h.waits, h.reading = false, true
	fails := true
	defer func() {
		if fails { // by a panic
			h.conn.Abort()
		}
		if len(s.behind) > 0 {
			s.setTurn()
		}
	}()
	h.begin(now)
	h.reading = false
	h.flush(now)
	fails = false
}
