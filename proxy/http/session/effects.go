package session

import (
	"time"

	"weir/proxy/http/exchange"
)

// Effects is what the owner must do after a Handle call: the effects of the exchange first, except Duplex
// and those that Client has in the form of HTTP/1.1, then these. Slices are borrowed until the next
// Handle call on any session of the same Env, and may be parts of the bytes that were handled.
type Effects struct {
	*exchange.Effects
	// Client is sent to the client: the responses of the exchange, or bytes of a tunnel. Upstream are
	// those for its other end.
	Client, Upstream []byte
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
	return s.state == stateTunnel && !s.targetEnded ||
		s.state == stateExchanges && s.coding == codingClose && s.Exchange.Relays()
}

// MoveEffects continues with the request if the exchange reads again, and moves the effects to fx.
func (s *Session) MoveEffects(now time.Time, fx *Effects) {
	if s.paused {
		s.readOn(now)
	}
	if s.Exchange.Ended() {
		s.settle()
	}
	*fx = Effects{Effects: s.Exchange.MoveEffects(fx.Effects)}
	if s.state != stateExchanges {
		fx.Upstream, fx.Duplex = s.up, fx.Duplex || s.state == stateTunnel
		if s.down != nil {
			fx.Body = s.down // the exchange has none
		}
		fx.EndUpstream, fx.EndClient, fx.Close = s.endUpstream, s.endClient, s.closing
		s.endUpstream, s.endClient, s.closing, s.up, s.down = false, false, CloseNone, nil, nil
	}
	switch {
	case fx.Response != nil || len(fx.Interim) > 0 || s.coding == codingChunks && (len(fx.Body) > 0 || fx.Complete):
		s.env.client = s.appendResponses(s.env.client[:0], fx.Effects)
		fx.Client = s.env.client
	case len(fx.Body) > 0:
		fx.Client = fx.Body
	}
	if fx.Report != nil {
		fx.Report.Spent = s.spent
	}
	if fx.Read = s.left && s.reads(); fx.Read {
		s.left = false
	}
}
