package exchange

import (
	"bytes"
	"net/netip"
	"slices"

	"weir/internal/net/http1"
	"weir/proxy/rules/decide"
	"weir/proxy/rules/keys"
)

// This file has everything about the origin of requests: which fields make claims about it, whose
// claims are believed, and what the target gets. Claims of trusted proxies are kept. Those of others
// are dropped before rules are matched, and the target gets what the proxy itself knows.

var usualClaims, _ = keys.NewForwardingFields(nil)

// claims returns the names of fields that make claims.
func (set *Settings) claims() *keys.ForwardingFields {
	if set.ForwardingFields == nil {
		return usualClaims
	}
	return set.ForwardingFields
}

// Trusts reports whether claims from an address are believed.
func (set *Settings) Trusts(a netip.Addr) bool {
	return slices.ContainsFunc(set.TrustedProxies, func(p netip.Prefix) bool { return p.Contains(a) })
}

// keepOrigin keeps where the request comes from: the connection, or what trusted proxies say; and for
// refusals the origin of the requesting page.
func (x *Exchange) keepOrigin(h *http1.Head) {
	x.env.forwarded = decide.ForwardedInfo{Client: x.Remote}
	if x.Trusted {
		x.env.forwarded = decide.ForwardedInfoOf(h.Fields, x.Remote, x.env.Settings.Trusts)
	}
	x.client, x.env.fx.OriginsDiffer = x.env.forwarded.Client, x.env.forwarded.Differ
	if !x.env.Settings.CORS || x.outcome.Own {
		return
	}
	if origin, ok := h.Value(http1.FieldOrigin); ok && len(origin) > 0 && len(origin) <= originBytesMax {
		x.origin = append(x.env.take(), origin...)
	}
}

// dropFields removes from h the claims, unless the client is a trusted proxy, and the fields whose
// names some targets would take for others. Neither rules nor the target see them.
func (x *Exchange) dropFields(h *http1.Head) {
	forwarding, fields, kept := x.env.Settings.claims(), h.Fields, 0
	for i := range fields {
		f := &fields[i]
		switch {
		case !x.Trusted && !f.ID.Hop() && forwarding.Has(f.Name):
			x.env.fx.Claims++
			continue
		case f.AmbiguousName && !x.keepsOdd(f.Name):
			x.outcome.OddFields++
			continue
		}
		if kept < i {
			fields[kept] = *f
		}
		kept++
	}
	h.Fields = fields[:kept]
}

// withheld reports whether the target must not get a field as it was received.
func (x *Exchange) withheld(f *http1.Field) bool {
	if !x.Trusted || f.ID.Hop() || !x.env.Settings.claims().Has(f.Name) {
		return f.Hop
	}
	// A Connection field does not remove a claim of a trusted proxy, since a client may
	// have named it. A look-alike is not from the trusted proxy. appendOrigin writes X-Forwarded-For.
	return f.AmbiguousName || f.ID == http1.FieldXForwardedFor
}

// keepsOdd reports whether to forward a field whose name has characters other than letters,
// digits and hyphens: if these are underscores, underscores are enabled, and no target can
// mistake the field for one of the connection or for the request's id.
func (x *Exchange) keepsOdd(name []byte) bool {
	set := x.env.Settings
	if !set.Underscores || set.RequestID && len(name) == len(decide.RequestIDField) &&
		keys.HasPrefixFold(name, "x-request-id") {
		return false
	}
	for _, c := range name {
		if c != '-' && c != '_' && keys.Fold(c) == '-' {
			return false
		}
	}
	for id := http1.FieldOther + 1; id.Hop(); id++ {
		if known := id.String(); len(known) == len(name) && keys.HasPrefixFold(name, known) {
			return false
		}
	}
	return true
}

// appendOrigin appends the X-Forwarded fields. Behind a trusted proxy it continues the list
// of addresses, in one line, since many programs read only the first or the last line, and
// keeps what that proxy says about protocol and host, also the protocol in Forwarded.
func (x *Exchange) appendOrigin(dst []byte, h *http1.Head) []byte {
	var proto, host bool // sent by the trusted proxy
	if x.Trusted {
		dst = x.appendAddrs(dst, h)
		_, proto = h.Value(http1.FieldXForwardedProto)
		_, host = h.Value(http1.FieldXForwardedHost)
	} else {
		if len(x.from) == 0 {
			x.from = append(appendAddr(append(x.from, "X-Forwarded-For: "...), x.Remote), "\r\n"...)
		}
		dst = append(dst, x.from...)
	}
	switch said := x.env.forwarded.Proto; {
	case proto:
	case said != nil:
		dst = http1.AppendField(dst, "X-Forwarded-Proto", said)
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

// appendAddrs appends the addresses that a trusted proxy has sent and, unless this is a delivery, its own.
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
		dst = x.appendSender(dst)
	}
	return append(dst, "\r\n"...)
}

// appendSender appends the address of the client, unless it is listed already, and of the peer.
func (x *Exchange) appendSender(dst []byte) []byte {
	if o := &x.env.forwarded; !o.Listed && o.Client != x.Remote {
		dst = append(appendAddr(dst, x.client), ", "...)
	}
	return appendAddr(dst, x.Remote)
}

func appendAddr(dst []byte, a netip.Addr) []byte {
	if !a.IsValid() {
		return append(dst, "unknown"...)
	}
	return a.AppendTo(dst)
}

// originBytesMax bounds the Origin that refusals repeat; browsers send none that is longer.
const originBytesMax = 512
