package check

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/netip"
	"strings"

	"weir/internal/http1"
)

// Access determines which requests are allowed.
//
// Immutable after New.
type Access struct {
	Token    string // token required for asking; empty: none
	Verified bool   // asking requires Token or a trusted certificate
	Local    bool   // the port is reachable only from this machine, and every asker may describe requests
	Open     bool   // asking needs no Token
	Edit     string // token that allows everything
	EditOpen bool   // every asker may also edit
}

// rights are the allowed actions of a request.
type rights uint8

const (
	nothing rights = iota
	asking
	editing
)

// of returns the rights of the sender of an Authorization field, and whether they come
// from a token. verified says that the sender has presented a trusted certificate.
func (a *Access) of(authorization []byte, verified bool) (r rights, tokened bool) {
	scheme, brought, _ := strings.Cut(string(authorization), " ")
	bears := func(token string) bool {
		if token == "" || !strings.EqualFold(scheme, "Bearer") {
			return false
		}
		// Digests have equal lengths, so that timing reveals nothing.
		want, sum := sha256.Sum256([]byte(token)), sha256.Sum256([]byte(strings.TrimSpace(brought)))
		return subtle.ConstantTimeCompare(want[:], sum[:]) == 1
	}
	switch {
	case bears(a.Edit):
		return editing, true
	case bears(a.Token):
		tokened = true
	case (a.Token != "" || a.Verified) && !verified:
		return nothing, false
	}
	if a.EditOpen {
		return editing, tokened
	}
	return asking, tokened
}

// describes reports whether an asker at the given address may describe requests without a
// token.
func (a *Access) describes(from netip.Addr) bool {
	return a.Open && a.Token == "" || a.Local && from.IsLoopback()
}

// page reports whether a request may have been made by a web page in a browser that
// reaches the port. A host that is not a loopback name may have been resolved to this
// machine by the page (DNS rebinding).
func (a *Access) page(h *http1.Head) bool {
	_, origins := only(h, "Origin")
	_, sites := only(h, "Sec-Fetch-Site")
	return origins+sites > 0 || a.Local && !a.Open && !loopback(string(h.Host))
}

// loopback reports whether a Host field names this machine.
func loopback(host string) bool {
	if at, err := netip.ParseAddrPort(host); err == nil {
		return at.Addr().Unmap().IsLoopback()
	}
	if addr, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		return addr.Unmap().IsLoopback()
	}
	name, _, _ := strings.Cut(host, ":")
	return strings.EqualFold(name, "localhost")
}
