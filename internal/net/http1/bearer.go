package http1

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/netip"
	"strings"
)

// HasBearerToken reports whether the value of an Authorization field presents the token (RFC 6750). The
// empty token cannot be presented.
func HasBearerToken(authorization, token string) bool {
	scheme, brought, _ := strings.Cut(authorization, " ")
	if token == "" || !strings.EqualFold(scheme, "Bearer") {
		return false
	}
	// Digests have equal lengths, so that timing reveals nothing.
	want, sum := sha256.Sum256([]byte(token)), sha256.Sum256([]byte(strings.TrimSpace(brought)))
	return subtle.ConstantTimeCompare(want[:], sum[:]) == 1
}

// IsLoopback reports whether the value of a Host field names this machine. Any other name may have
// been resolved to a loopback address by the page that makes the request (DNS rebinding).
func IsLoopback(host string) bool {
	if i := strings.LastIndexByte(host, ':'); i >= 0 &&
		(strings.HasSuffix(host[:i], "]") || !strings.Contains(host[:i], ":")) {
		host = host[:i] // without the port, which may be empty
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	addr, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && addr.Unmap().IsLoopback()
}
