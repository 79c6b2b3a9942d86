package session

import "weir/proxy/exchange"

// Effects is what the owner has to do after a Handle call: the effects of the exchange
// first, but for Duplex, then these. The slices are borrowed until the next Handle call on
// any session of the same Env.
type Effects struct {
	exchange.Effects
	// EndUpstream and EndClient pass on that a tunnel's other side sends no
	// more: a half close behind the last byte.
	EndUpstream, EndClient bool
	// Close ends the client's connection.
	Close Close
	// Read: bytes of the client that were left unread are to be shown again.
	Read bool
}

// A Close says how the client's connection ends.
type Close uint8

const (
	CloseNone    Close = iota
	CloseDrained       // after the last byte
	CloseLinger        // likewise, and what the client still sends is discarded
	CloseAbort         // at once and visibly: what was announced will not come
)

// MoveEffects writes what to do to fx, and forgets it.
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
