package exchange

import (
	"bytes"
	"net/netip"
	"slices"

	"weir/internal/http1"
	"weir/proxy/claims"
	"weir/proxy/decide"
)

// This file has everything about the origin of requests: which fields make
// claims about it, whose claims are believed, and what goes to the target. Claims of
// trusted proxies stand. Those of others are dropped before rules or the target
// see them, and the target gets what the proxy itself knows.

var usualClaims, _ = claims.New(nil)

// claims are those in force.
func (set *Settings) claims() *claims.Set {
	if set.Claims == nil {
		return usualClaims
	}
	return set.Claims
}

// trusts reports whether claims from an address are believed.
func (set *Settings) trusts(a netip.Addr) bool {
	return slices.ContainsFunc(set.TrustedProxies, func(p netip.Prefix) bool { return p.Contains(a) })
}

// clientOf is the address of the client that made the request: the connection's, or behind
// trusted proxies the last one of X-Forwarded-For that is not theirs. What
// stands left of that, anybody may have written.
func (x *Exchange) clientOf(h *http1.Head) netip.Addr {
	at := x.Remote
	if !x.Trusted {
		return at
	}
	return decide.ClientOf(h.Fields, at, x.env.Settings.trusts)
}

// disbelieve takes the claims of a client that is no trusted proxy out of h: they
// count neither for rules nor for the target.
func (x *Exchange) disbelieve(h *http1.Head) {
	if x.Trusted {
		return
	}
	claim, kept := x.env.Settings.claims(), 0
	for i := range h.Fields {
		f := &h.Fields[i]
		if !f.ID.Hop() && claim.Has(f.Name) {
			continue
		}
		if kept < i {
			h.Fields[kept] = *f
		}
		kept++
	}
	x.fx.Claims = len(h.Fields) - kept
	h.Fields = h.Fields[:kept]
}

// withheld reports whether the target must not see a field as it came.
func (x *Exchange) withheld(f *http1.Field) bool {
	switch {
	case f.ID.Hop():
		return true
	case f.Odd && !x.keepsOdd(f.Name):
		x.outcome.OddFields++
		return true
	case !x.Trusted || !x.env.Settings.claims().Has(f.Name):
		return f.Hop
	case f.ID == http1.FieldXForwardedFor:
		return true // appendOrigin writes it
	}
	// A Connection field takes no claim of a trusted proxy away: a client may
	// have named it. A look-alike is not the trusted proxy's.
	return f.Odd
}

// keepsOdd reports whether a field is forwarded whose name has other characters
// than letters, digits and hyphens: when these are underscores, they are wanted,
// and no target takes the field for one of the connection's, or for the request's id.
func (x *Exchange) keepsOdd(name []byte) bool {
	set := x.env.Settings
	if !set.Underscores || set.RequestID && len(name) == len(decide.RequestIDField) && claims.Begins(name, "x-request-id") {
		return false
	}
	for _, c := range name {
		if c != '-' && c != '_' && claims.Fold(c) == '-' {
			return false
		}
	}
	for id := http1.FieldOther + 1; id.Hop(); id++ {
		if known := id.String(); len(known) == len(name) && claims.Begins(name, known) {
			return false
		}
	}
	return true
}

// appendOrigin appends the X-Forwarded fields. Behind a trusted proxy the list
// of addresses goes on, in one line, as many programs read only the first or
// the last; what that proxy said about protocol and host stands.
func (x *Exchange) appendOrigin(dst []byte, h *http1.Head) []byte {
	var proto, host bool // the trusted proxy has said it
	if x.Trusted {
		dst = x.appendAddrs(dst, h)
		_, proto = h.Value(http1.FieldXForwardedProto)
		_, host = h.Value(http1.FieldXForwardedHost)
	} else {
		if x.from == nil {
			x.from = append(appendAddr([]byte("X-Forwarded-For: "), x.Remote), "\r\n"...)
		}
		dst = append(dst, x.from...)
	}
	switch {
	case proto:
	case x.Secure:
		dst = append(dst, "X-Forwarded-Proto: https\r\n"...)
	default:
		dst = append(dst, "X-Forwarded-Proto: http\r\n"...)
	}
	if len(h.Host) > 0 && !host {
		dst = http1.AppendField(dst, "X-Forwarded-Host", h.Host)
	}
	return dst
}

// appendAddrs appends the addresses that a trusted proxy has sent, and its own.
func (x *Exchange) appendAddrs(dst []byte, h *http1.Head) []byte {
	dst = append(dst, "X-Forwarded-For: "...)
	for i := range h.Fields {
		if f := &h.Fields[i]; f.ID == http1.FieldXForwardedFor && len(f.Value) > 0 {
			dst = append(append(dst, f.Value...), ", "...)
		}
	}
	if x.env.Delivery { // the proxy that sent it is in the list, see keepHead
		dst = bytes.TrimSuffix(dst, []byte(", "))
	} else {
		dst = appendAddr(dst, x.Remote)
	}
	return append(dst, "\r\n"...)
}

func appendAddr(dst []byte, a netip.Addr) []byte {
	if !a.IsValid() {
		return append(dst, "unknown"...)
	}
	return a.AppendTo(dst)
}
