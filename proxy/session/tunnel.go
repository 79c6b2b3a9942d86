package session

import (
	"time"

	"weir/internal/http1"
)

// After 101 the bytes are another protocol's: they are passed on in both
// directions as they come, and so is the end of each (RFC 9110 section 7.8).

// asksUpgrade returns the protocols that the request in h may switch to, as
// asked for. One with a body may not: where it ends and the other protocol
// begins would be in doubt for whoever does not know the protocol.
func (s *Session) asksUpgrade(h *http1.Head) []byte {
	if !h.Upgrade || h.Minor == 0 || h.Framing != http1.BodyNone {
		return nil
	}
	asked, _ := h.Value(http1.FieldUpgrade)
	for _, name := range s.env.Settings.Upgrades {
		if len(asked) == len(name) && equalFold(asked, name) {
			return asked
		}
	}
	return nil
}

// switched passes a 101 on and turns the exchange into a tunnel; false: the
// target must not have sent it.
func (s *Session) switched(now time.Time, h *http1.Head) bool {
	if s.x.upgrade == "" || h.CheckSwitch([]byte(s.x.upgrade)) != nil {
		return false
	}
	protocol, _ := h.Value(http1.FieldUpgrade)
	out := s.appendAnswerHead(now, s.env.out, h)
	out = s.appendLimits(out)
	out = append(out, "Connection: upgrade\r\n"...)
	out = http1.AppendField(out, "Upgrade", protocol)
	s.env.out = http1.AppendHeadEnd(out)
	s.x.outcome.Status, s.x.outcome.Relayed, s.x.outcome.Answered = 101, true, now
	s.report()
	s.sentRequest()
	s.env.give(s.x.origin) // nothing can be refused any more
	s.x.origin = nil
	s.x.answer.become(answerDone)
	s.state = stateTunnel
	s.fx.EndUpstream = s.clientEnded
	s.awaitTunnel(now)
	return true
}

// awaitTunnel expects the next byte. When one side has ended, what is left is a
// stream: whether the peer that has ended is still there, nothing else tells.
// While one side takes nothing, the loop bounds how long.
func (s *Session) awaitTunnel(now time.Time) {
	wait := s.env.Settings.TunnelTimeout
	if (s.clientEnded || s.targetEnded) && !s.clientFull && !s.targetFull {
		wait = min(wait, s.env.Settings.StreamTimeout)
	}
	s.deadline = now.Add(wait)
}

func (s *Session) tunnelUp(now time.Time, b []byte) int {
	if s.targetFull {
		return 0
	}
	s.awaitTunnel(now)
	s.env.up = append(s.env.up, b...)
	return len(b)
}

func (s *Session) tunnelDown(now time.Time, b []byte) int {
	if s.clientFull {
		return 0
	}
	s.awaitTunnel(now)
	s.env.out = append(s.env.out, b...)
	return len(b)
}

// HandleClientEnd is told that the client sends no more; it may still read. A
// request that is whole is answered before the connection closes. A request
// that is not never will be: it is given up. unread is how many bytes were left
// unread: while the session wants none they wait their turn, and the end is to be
// told again when they are shown.
func (s *Session) HandleClientEnd(now time.Time, unread int) {
	s.begin()
	switch {
	case unread > 0 && !s.reads():
	case s.state == stateClosing || s.clientEnded:
	case s.state == stateTunnel:
		s.clientEnded = true
		s.fx.EndUpstream = true
		s.awaitTunnel(now)
		if s.targetEnded {
			s.endTunnel(CloseDrained)
		}
	case s.x.request == requestNone || s.reader.InBody():
		s.HandleClosed(now)
		s.fx.Close = CloseDrained // the last answer may still be on its way
	default:
		s.clientEnded, s.x.keepAlive = true, false
	}
}

// HandleUpstreamEnd is told that the target's connection held sends no more;
// unread is how many of its bytes wait until the client takes more. It reports
// whether the connection stays open: for these bytes, or for the other direction
// of a tunnel. Else the owner closes it: HandleUpstreamClosed.
func (s *Session) HandleUpstreamEnd(now time.Time, unread int) (open bool) {
	s.begin()
	if unread > 0 && s.holds() {
		return true
	}
	if s.state != stateTunnel || s.targetEnded {
		return s.state == stateTunnel
	}
	s.targetEnded = true
	s.fx.EndClient = true
	s.awaitTunnel(now)
	if s.clientEnded {
		s.endTunnel(CloseDrained)
	}
	return true
}

// endTunnel ends both sides; what has been written to the target is still
// sent.
func (s *Session) endTunnel(how Close) {
	s.letGo(ReleaseEnd)
	s.over()
	s.close(how)
}
