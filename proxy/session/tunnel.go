package session

import (
	"errors"
	"io"
	"time"

	"weir/proxy/exchange"
)

// After 101 the bytes are another protocol's: they are passed on in both
// directions as they come, and so is the end of each (RFC 9110 section 7.8).

// beginTunnel turns the session into a tunnel. The exchange that has switched protocols
// keeps the upstream connection until EndTunnel.
func (s *Session) beginTunnel(now time.Time) {
	s.state = stateTunnel
	s.endUpstream = s.clientEnded
	s.awaitTunnel(now)
}

// awaitTunnel expects the next byte. When one side has ended, what is left is a
// stream: whether the peer that has ended is still there, nothing else tells.
// While one side takes nothing, the loop bounds how long.
func (s *Session) awaitTunnel(now time.Time) {
	wait := s.env.Settings.TunnelTimeout
	clientFull, targetFull := s.Full()
	if (s.clientEnded || s.targetEnded) && !clientFull && !targetFull {
		wait = min(wait, s.env.Settings.StreamTimeout)
	}
	s.deadline = now.Add(wait)
}

func (s *Session) tunnelUp(now time.Time, b []byte) int {
	if _, targetFull := s.Full(); targetFull {
		return 0
	}
	s.awaitTunnel(now)
	s.AppendUpstream(b)
	return len(b)
}

func (s *Session) tunnelDown(now time.Time, b []byte) int {
	if clientFull, _ := s.Full(); clientFull || !s.Held() {
		return 0
	}
	s.awaitTunnel(now)
	s.AppendClient(b)
	return len(b)
}

// HandleUpstream brings bytes from the upstream connection held, and
// returns how many of them are done with. What goes beyond the answer cannot
// be trusted: the connection is discarded. While the client is full nothing of
// a relayed answer is wanted; the bytes are to be shown again afterwards.
func (s *Session) HandleUpstream(now time.Time, b []byte) (n int) {
	if s.state != stateTunnel {
		n = s.Exchange.HandleUpstream(now, b)
		if s.Ended() {
			s.settle()
		}
	} else {
		s.env.Begin()
	}
	if s.state == stateTunnel {
		n += s.tunnelDown(now, b[n:])
	}
	return n
}

// HandleTargetFull says whether the upstream connection held takes nothing for the moment.
func (s *Session) HandleTargetFull(now time.Time, full bool) {
	s.Exchange.HandleTargetFull(now, full)
	if s.state == stateTunnel {
		s.awaitTunnel(now)
	}
}

// HandleClientFull says whether the client takes nothing for the moment:
// meanwhile no more of a relayed answer is wanted.
func (s *Session) HandleClientFull(now time.Time, full bool) {
	s.Exchange.HandleClientFull(now, full)
	if s.state == stateTunnel {
		s.awaitTunnel(now)
	}
}

// HandleClientEnd says that the client sends no more; it may still read. A
// request that is whole is answered before the connection closes. A request
// that is not never will be: it is given up. unread is how many bytes were left
// unread: while the session wants none they wait their turn, and the end is to be
// said again when they are shown.
func (s *Session) HandleClientEnd(now time.Time, unread int) {
	s.env.Begin()
	switch {
	case unread > 0 && !s.reads():
	case s.state == stateClosing || s.clientEnded:
	case s.state == stateTunnel:
		s.clientEnded = true
		s.endUpstream = true
		s.awaitTunnel(now)
		if s.targetEnded {
			s.endTunnel(exchange.ReleaseEnd, CloseDrained)
		}
	case s.Idle() || s.reader.InBody():
		s.HandleClosed(now)
		s.closing = CloseDrained // the last answer may still be on its way
	default:
		s.clientEnded = true
		s.HandleLast()
	}
}

// HandleUpstreamEnd says that the upstream connection held sends no more;
// unread is how many of its bytes wait until the client takes more. It reports
// whether the connection stays open: for these bytes, or for the other direction
// of a tunnel. Else the owner closes it: HandleUpstreamClosed.
func (s *Session) HandleUpstreamEnd(now time.Time, unread int) (open bool) {
	s.env.Begin()
	if s.state != stateTunnel {
		return unread > 0 && s.Holds()
	}
	if clientFull, _ := s.Full(); unread > 0 && clientFull || s.targetEnded {
		return true
	}
	s.targetEnded = true
	s.endClient = true
	s.awaitTunnel(now)
	if s.clientEnded {
		s.endTunnel(exchange.ReleaseEnd, CloseDrained)
	}
	return true
}

// HandleUpstreamClosed says that the upstream connection held is closed, and why.
func (s *Session) HandleUpstreamClosed(now time.Time, err error) {
	if s.state != stateTunnel {
		s.Exchange.HandleUpstreamClosed(now, err)
		return
	}
	s.env.Begin()
	how := CloseDrained
	if err != nil && !errors.Is(err, io.EOF) && !s.targetEnded {
		how = CloseAbort // else what it had said before it ended is still sent
	}
	s.endTunnel(exchange.ReleaseNone, how)
}

// endTunnel ends both sides; with ReleaseEnd what has been written to the target is still
// sent.
func (s *Session) endTunnel(upstream exchange.Release, client Close) {
	s.EndTunnel(upstream)
	s.close(client)
}
