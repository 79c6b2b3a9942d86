package http1

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/netip"
	"strings"
)

// Bears reports whether the value of an Authorization field presents the token (RFC 6750). The
// empty token cannot be presented.
func Bears(authorization, token string) bool {
	scheme, brought, _ := strings.Cut(authorization, " ")
	if token == "" || !strings.EqualFold(scheme, "Bearer") {
		return false
	}
	// Digests have equal lengths, so that timing reveals nothing.
	want, sum := sha256.Sum256([]byte(token)), sha256.Sum256([]byte(strings.TrimSpace(brought)))
	return subtle.ConstantTimeCompare(want[:], sum[:]) == 1
}

// Loopback reports whether the value of a Host field names this machine. Any other name may have
// been resolved to a loopback address by the page that makes the request (DNS rebinding).
func Loopback(host string) bool {
	if at, err := netip.ParseAddrPort(host); err == nil {
		return at.Addr().Unmap().IsLoopback()
	}
	if addr, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		return addr.Unmap().IsLoopback()
	}
	name, _, _ := strings.Cut(host, ":")
	return strings.EqualFold(name, "localhost")
}
