package session

import (
	"net/netip"
	"time"

	"weir/internal/net/http1"
)

// A pair is HTTP/1.1 on both sides: a session, and an upstream connection.
type pair struct {
	*Session
	up   Upstream
	sent []byte // what goes to the target
}

func newPair(now time.Time, env *Env, remote netip.Addr, secure bool) *pair {
	return &pair{Session: New(now, env, remote, secure), up: NewUpstream(&env.Settings.ResponseHead, new(http1.Head))}
}

func (b *pair) HandleUpstream(now time.Time, in []byte) int {
	return b.Session.HandleUpstream(now, &b.up, in)
}

func (b *pair) HandleUpstreamClosed(now time.Time, err error) {
	b.Session.HandleUpstreamClosed(now, &b.up, err)
}

// MoveEffects has all that is sent on the upstream connection in Upstream.
func (b *pair) MoveEffects(now time.Time, fx *Effects) {
	b.Session.MoveEffects(now, fx)
	if fx.Forward != nil || len(fx.Upload) > 0 || fx.Uploaded {
		b.sent = b.up.Append(b.sent[:0], fx.Effects, "target:8081")
		fx.Upstream = b.sent
	}
}

// Effects are those to be moved.
func (b *pair) Effects(now time.Time) (fx Effects) {
	b.MoveEffects(now, &fx)
	return fx
}

// ownBytes is the request to an own endpoint in the form of HTTP/1.1.
func ownBytes(fx *Effects) []byte {
	if fx.Own == nil {
		return nil
	}
	return append(AppendRequest(nil, fx.Own.Request, ""), fx.Own.Body...)
}
