package wire

import (
	"net/netip"
	"testing"
	"time"

	"weir/proxy/http/exchange"
	"weir/proxy/http/session"
)

// A mute is a carrier and a peer of which nothing comes.
type mute struct{ carrier }

func (mute) MoveEffects(_ time.Time, fx *session.Effects) { *fx = session.Effects{} }
func (mute) addrs() (remote, local netip.AddrPort)        { return remote, local }
func (mute) background() bool                             { return false }
func (mute) note(time.Time, *session.Effects)             {}
func (mute) write(time.Time, []byte)                      {}
func (mute) end(*session.Effects)                         {}
func (mute) read(*session.Effects)                        {}
func (mute) setDeadline(time.Time)                        {}
func (mute) takes(time.Time, *upstreamConn, bool) bool    { return true }
func (mute) settled(time.Time) bool                       { return false }

// Effects are carried out three times for a request: memory for them that is allocated each time costs a
// tenth of the rate.
func TestApplyAllocatesNothing(t *testing.T) {
	var c client
	c.begin(new(loopServer), mute{}, mute{}, new(exchange.Exchange))
	now := time.Now()
	if n := testing.AllocsPerRun(1000, func() { c.apply(now) }); n > 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}
