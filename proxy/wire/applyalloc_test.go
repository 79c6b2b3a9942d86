package wire

import (
	"net/netip"
	"testing"
	"time"

	"weir/proxy/http/exchange"
	"weir/proxy/http/session"
)

// An idlePeer is a peer and its carrier, which has no effects.
type idlePeer struct{ carrier }

func (idlePeer) MoveEffects(_ time.Time, fx *session.Effects) {
	if fx.Effects == nil {
		fx.Effects = new(exchange.Effects)
	}
}
func (idlePeer) addrs() (remote, local netip.AddrPort)     { return remote, local }
func (idlePeer) background() bool                          { return false }
func (idlePeer) note(time.Time, *session.Effects)          {}
func (idlePeer) write(time.Time, []byte)                   {}
func (idlePeer) end(*session.Effects)                      {}
func (idlePeer) read(*session.Effects)                     {}
func (idlePeer) setDeadline(time.Time)                     {}
func (idlePeer) takes(time.Time, *upstreamConn, bool) bool { return true }
func (idlePeer) settled(time.Time) bool                    { return false }

// Effects are carried out three times for a request: memory for them that is allocated each time costs a
// tenth of the rate.
func TestApplyAllocatesNothing(t *testing.T) {
	var c client
	c.begin(new(loopServer), idlePeer{}, idlePeer{}, new(exchange.Exchange))
	now := time.Now()
	if n := testing.AllocsPerRun(1000, func() { c.apply(now) }); n > 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}
