package session

import (
	"errors"
	"io"
	"time"

	"weir/proxy/http/exchange"
)

// After 101 the bytes belong to another protocol: they are copied in both directions, and so
// is the end of each direction (RFC 9110 section 7.8).

// beginTunnel turns the session into a tunnel. The exchange keeps the upstream connection
// until EndTunnel.
func (s *Session) beginTunnel(now time.Time) {
	s.state = stateTunnel
	s.endUpstream = s.clientEnded
	s.awaitTunnel(now)
}

// awaitTunnel sets the deadline of the next byte. After one side has ended the shorter
// StreamTimeout applies, since nothing else shows whether that peer still exists. While one
// side accepts no data, the loop bounds how long.
func (s *Session) awaitTunnel(now time.Time) {
	wait := s.env.Settings.TunnelTimeout
	clientFull, targetFull := s.Exchange.Full()
	if (s.clientEnded || s.targetEnded) && !clientFull && !targetFull {
		wait = min(wait, s.env.Settings.StreamTimeout)
	}
	s.deadline = now.Add(wait)
}

func (s *Session) tunnelUp(now time.Time, b []byte) int {
	if _, targetFull := s.Exchange.Full(); targetFull {
		return 0
	}
	s.awaitTunnel(now)
	s.up = b
	return len(b)
}

func (s *Session) tunnelDown(now time.Time, b []byte) int {
	if clientFull, _ := s.Exchange.Full(); clientFull || !s.Exchange.Held() {
		return 0
	}
	s.awaitTunnel(now)
	s.down = b
	return len(b)
}

// HandleUpstream handles bytes from the upstream connection, and returns how many it has
// consumed; see [Upstream.Handle].
func (s *Session) HandleUpstream(now time.Time, u *Upstream, b []byte) (n int) {
	if s.state != stateTunnel {
		if n = u.Handle(now, &s.Exchange, b); s.Exchange.Ended() {
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

// HandleTargetFull reports whether the upstream connection currently accepts no data.
func (s *Session) HandleTargetFull(now time.Time, full bool) {
	s.Exchange.HandleTargetFull(now, full)
	if s.state == stateTunnel {
		s.awaitTunnel(now)
	}
}

// HandleClientFull reports whether the client currently accepts no data. Meanwhile a relayed
// answer is not read.
func (s *Session) HandleClientFull(now time.Time, full bool) {
	s.Exchange.HandleClientFull(now, full)
	if s.state == stateTunnel {
		s.awaitTunnel(now)
	}
}

// HandleClientEnd handles the half close of the client, which may still read. A complete
// request is answered before the connection closes; an incomplete one is given up. unread is
// the number of unread bytes: while the session does not read them, the end is ignored, and
// the owner calls HandleClientEnd again after they are read.
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
			s.endTunnel(exchange.ReleaseDrained, CloseDrained)
		}
	case s.Exchange.Idle() || s.reader.InBody():
		s.HandleClosed(now)
		s.closing = CloseDrained // the last answer may still be on its way
	default:
		s.clientEnded = true
	}
}

// HandleUpstreamEnd handles the half close of the upstream connection; unread is the number
// of its bytes that wait until the client accepts more. It reports whether the connection
// stays open, for these bytes or for the other direction of a tunnel. Otherwise the owner
// closes it and calls HandleUpstreamClosed.
func (s *Session) HandleUpstreamEnd(now time.Time, unread int) (open bool) {
	s.env.Begin()
	if s.state != stateTunnel {
		return unread > 0 && s.Exchange.Holds()
	}
	if clientFull, _ := s.Exchange.Full(); unread > 0 && clientFull || s.targetEnded {
		return true
	}
	s.targetEnded = true
	s.endClient = true
	s.awaitTunnel(now)
	if s.clientEnded {
		s.endTunnel(exchange.ReleaseDrained, CloseDrained)
	}
	return true
}

// HandleUpstreamClosed handles the close of the upstream connection; err is the reason.
func (s *Session) HandleUpstreamClosed(now time.Time, u *Upstream, err error) {
	if s.state != stateTunnel {
		u.HandleClosed(now, &s.Exchange, err)
		return
	}
	s.env.Begin()
	how := CloseDrained
	if err != nil && !errors.Is(err, io.EOF) && !s.targetEnded {
		how = CloseAbort // otherwise what it sent before its end is still passed on
	}
	s.endTunnel(exchange.ReleaseNone, how)
}

// endTunnel ends both sides. With ReleaseDrained, what has been written to the target is sent
// first.
func (s *Session) endTunnel(upstream exchange.ConnRelease, client Close) {
	s.Exchange.EndTunnel(upstream)
	s.close(client)
}
