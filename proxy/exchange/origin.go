package exchange

import (
	"bytes"
	"fmt"
	"net/netip"
	"slices"

	"weir/internal/http1"
	"weir/proxy/decide"
	"weir/proxy/terms"
)

// This file has everything about the origin of requests: which fields make
// claims about it, whose claims are believed, and what goes to the target. Claims of
// trusted proxies stand. Those of others are dropped before rules or the target
// see them, and the target gets what the proxy itself knows.

// usualClaims are the fields that targets and frameworks commonly believe.
var usualClaims = [...]string{
	// the address of the client
	"Forwarded", "Forwarded-For", "X-Forwarded", "X-Forwarded-*", "X-Original-Forwarded-For", "X-Real-IP",
	"Client-IP", "X-Client-IP", "True-Client-IP", "X-Cluster-Client-IP", "X-Remote-IP", "X-Remote-Addr", "X-Originating-IP",
	"CF-Connecting-IP", "CF-Connecting-IPv6", "CF-Pseudo-IPv4", "Fastly-Client-IP", "Fly-Client-IP", "X-Appengine-User-IP",
	"X-Azure-ClientIP", "X-Azure-SocketIP", "X-Envoy-External-Address", "Proxy-Client-IP", "WL-Proxy-Client-IP",
	// the host, the protocol and the URL that it asked for
	"X-Host", "X-Original-Host", "X-Original-URL", "X-Original-URI", "X-Rewrite-URL", "X-Scheme", "X-URL-Scheme", "Front-End-HTTPS",
	// its certificate (RFC 9440 section 4)
	"Client-Cert", "Client-Cert-Chain", "X-Client-Cert", "SSL-Client-*", "X-SSL-Client-*",
	// which delivery of a stored request it is
	terms.AttemptField,
	// what a CGI program takes for its HTTP_PROXY
	"Proxy",
}

// Claims is a set of names of fields that make claims about a request's origin.
// Names that differ in case or in characters other than letters and digits are
// the same: programs that turn field names into variables cannot tell X_Real_IP
// from X-Real-IP.
//
// Immutable after NewClaims.
type Claims struct {
	// lengths spares most fields a comparison: by first character, which
	// lengths a claim may have. Bit 63 stands for all from there on.
	lengths  [256]uint64
	byLength [claimBytesMax + 1][]string
	prefixes []string
}

// claimBytesMax bounds a name in Claims.
const claimBytesMax = 63

// NewClaims returns the usual names and those of more, which consist of letters,
// digits and hyphens and may end in *, which stands for any characters. The error says
// which of them does not.
func NewClaims(more []string) (*Claims, error) {
	c := new(Claims)
	for _, name := range more {
		if err := c.add(name); err != nil {
			return nil, err
		}
	}
	for _, name := range usualClaims {
		_ = c.add(name)
	}
	return c, nil
}

// UsualClaims are the usual names; * stands for any characters.
func UsualClaims() []string { return slices.Clone(usualClaims[:]) }

var claimsByDefault, _ = NewClaims(nil)

// claims are those in force.
func (set *Settings) claims() *Claims {
	if set.Claims == nil {
		return claimsByDefault
	}
	return set.Claims
}

func (c *Claims) add(name string) error {
	known := []byte(name)
	known, open := bytes.CutSuffix(known, []byte("*"))
	if n := len(known); n == 0 || n > claimBytesMax {
		return fmt.Errorf("%q has not 1 to %d characters", name, claimBytesMax)
	}
	for i, b := range known {
		if known[i] = folded[b]; known[i] == '-' && b != '-' {
			return fmt.Errorf("%q has other characters than letters, digits and -", name)
		}
	}
	lengths := uint64(1) << len(known)
	if open {
		c.prefixes = append(c.prefixes, string(known))
		lengths = -lengths // and all above
	} else {
		c.byLength[len(known)] = append(c.byLength[len(known)], string(known))
	}
	for first := range c.lengths {
		if folded[first] == known[0] {
			c.lengths[first] |= lengths
		}
	}
	return nil
}

// Has reports whether a field of that name makes a claim.
func (c *Claims) Has(name []byte) bool {
	return c.lengths[name[0]]>>min(len(name), claimBytesMax)&1 != 0 && c.finds(name)
}

// finds compares a name with all of its length.
func (c *Claims) finds(name []byte) bool {
	if len(name) <= claimBytesMax {
		for _, known := range c.byLength[len(name)] {
			if foldsTo(name, known) {
				return true
			}
		}
	}
	for _, prefix := range c.prefixes {
		if len(name) >= len(prefix) && foldsTo(name, prefix) {
			return true
		}
	}
	return false
}

// foldsTo reports whether a name begins with a folded one. Names that differ mostly differ
// at the end: many begin with X-.
func foldsTo(name []byte, known string) bool {
	for i := len(known) - 1; i >= 0; i-- {
		if folded[name[i]] != known[i] {
			return false
		}
	}
	return true
}

// folded has letters in lower case, digits, and - for anything else.
var folded = foldTable()

func foldTable() (t [256]byte) {
	for c := range t {
		t[c] = '-'
	}
	for c := '0'; c <= '9'; c++ {
		t[c] = byte(c)
	}
	for c := 'a'; c <= 'z'; c++ {
		t[c], t[c-'a'+'A'] = byte(c), byte(c)
	}
	return t
}

// trusts reports whether claims from an address are believed.
func (set *Settings) trusts(a netip.Addr) bool {
	for _, p := range set.TrustedProxies {
		if p.Contains(a) {
			return true
		}
	}
	return false
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
	claims, kept := x.env.Settings.claims(), 0
	for i := range h.Fields {
		f := &h.Fields[i]
		if !f.ID.Hop() && claims.Has(f.Name) {
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
	if !set.Underscores || set.RequestID && len(name) == len(decide.RequestIDField) && foldsTo(name, "x-request-id") {
		return false
	}
	for _, c := range name {
		if c != '-' && c != '_' && folded[c] == '-' {
			return false
		}
	}
	for id := http1.FieldOther + 1; id.Hop(); id++ {
		if known := id.String(); len(known) == len(name) && foldsTo(name, known) {
			return false
		}
	}
	return true
}

// appendOrigin appends the X-Forwarded fields. Behind a trusted proxy the list
// of addresses goes on, in one line, as many programs read only the first or
// the last; what that proxy said about protocol and host stands.
func (x *Exchange) appendOrigin(dst []byte, h *http1.Head) []byte {
	dst = append(dst, "X-Forwarded-For: "...)
	said := func(id http1.FieldID) bool {
		_, there := h.Value(id)
		return x.Trusted && there
	}
	if x.Trusted {
		for i := range h.Fields {
			if f := &h.Fields[i]; f.ID == http1.FieldXForwardedFor && len(f.Value) > 0 {
				dst = append(dst, f.Value...)
				dst = append(dst, ", "...)
			}
		}
	}
	dst = appendAddr(dst, x.Remote)
	dst = append(dst, "\r\n"...)
	if !said(http1.FieldXForwardedProto) {
		proto := "http"
		if x.Secure {
			proto = "https"
		}
		dst = http1.AppendFieldString(dst, "X-Forwarded-Proto", proto)
	}
	if len(h.Host) > 0 && !said(http1.FieldXForwardedHost) {
		dst = http1.AppendField(dst, "X-Forwarded-Host", h.Host)
	}
	return dst
}

func appendAddr(dst []byte, a netip.Addr) []byte {
	if !a.IsValid() {
		return append(dst, "unknown"...)
	}
	return a.AppendTo(dst)
}
