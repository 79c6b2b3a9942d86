package session

import "weir/proxy/http/exchange"

// Effects is what the owner must do after a Handle call: the effects of the exchange first,
// except Duplex, then these. Slices are borrowed until the next Handle call on any session
// of the same Env.
type Effects struct {
	exchange.Effects
	// EndUpstream and EndClient half close one side of a tunnel after the last byte,
	// because the other side has ended.
	EndUpstream, EndClient bool
	// Close says how to close the client's connection.
	Close Close
	// Read says that unread bytes of the client must be passed again.
	Read bool
}

// A Close says how to close the client's connection.
type Close uint8

const (
	CloseNone    Close = iota
	CloseDrained       // after the last byte
	CloseLinger        // likewise, then discarding what the client still sends
	CloseAbort         // likewise, by a reset: the announced answer stays incomplete
)

// Incomplete reports whether the close of the connection would seem to complete what was sent to
// the client, although more should follow: of an answer whose end is the close, or of a tunnel.
func (s *Session) Incomplete() bool {
	return s.state == stateTunnel && !s.targetEnded || s.state == stateExchanges && s.EndsWithClose()
}

// MoveEffects moves the effects to fx.
func (s *Session) MoveEffects(fx *Effects) {
	if s.Ended() {
		s.settle()
	}
	s.Exchange.MoveEffects(&fx.Effects)
	fx.EndUpstream, fx.EndClient, fx.Close = s.endUpstream, s.endClient, s.closing
	s.endUpstream, s.endClient, s.closing = false, false, CloseNone
	fx.Duplex = fx.Duplex || s.state == stateTunnel
	if fx.Report != nil {
		fx.Report.Spent = s.spent
	}
	fx.Read = s.left && s.reads()
	s.left = s.left && !fx.Read
}
