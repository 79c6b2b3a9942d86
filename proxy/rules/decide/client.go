package decide

import (
	"bytes"
	"net/netip"

	"weir/internal/net/http1"
	"weir/internal/net/share"
)

// ClientOf returns the last address in X-Forwarded-For that is not trusted, or otherwise
// the first one. If there is none it returns at, the peer of the connection.
func ClientOf(fields []http1.Field, at netip.Addr, trusts func(netip.Addr) bool) netip.Addr {
	for i := len(fields) - 1; i >= 0; i-- {
		if fields[i].ID != http1.FieldXForwardedFor {
			continue
		}
		for rest := fields[i].Value; len(rest) > 0; {
			cut := bytes.LastIndexByte(rest, ',')
			node := bytes.TrimSpace(rest[cut+1:])
			rest = rest[:max(cut, 0)]
			if len(node) == 0 { // RFC 9110 section 5.6.1.2
				continue
			}
			a, ok := addrOf(node)
			if !ok {
				return at
			}
			if at = a; !trusts(at) {
				return at
			}
		}
	}
	return at
}

// addrOf parses the address in an element of X-Forwarded-For, which may have a port and
// be quoted as in a Forwarded field (RFC 7239 section 6): 192.0.2.1, 192.0.2.1:80,
// 2001:db8::1, [2001:db8::1], "[2001:db8::1]:80". The port is not checked.
func addrOf(node []byte) (a netip.Addr, ok bool) {
	if n := len(node); n >= 2 && node[0] == '"' && node[n-1] == '"' {
		node = node[1 : n-1]
	}
	if len(node) > 0 && node[0] == '[' {
		end := bytes.IndexByte(node, ']')
		if end < 0 || end+1 < len(node) && node[end+1] != ':' {
			return a, false
		}
		node = node[1:end]
	} else if first := bytes.IndexByte(node, ':'); first > 0 && first == bytes.LastIndexByte(node, ':') {
		node = node[:first]
	}
	a, err := netip.ParseAddr(string(node))
	return CanonicalAddr(a), err == nil
}

// CanonicalAddr returns the address that a client is known by; see [share.Canonical].
func CanonicalAddr(a netip.Addr) netip.Addr { return share.Canonical(a) }
