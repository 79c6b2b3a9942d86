package check

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/netip"
	"strings"

	"weir/internal/http1"
)

// Access says who may do what.
//
// Immutable after New.
type Access struct {
	Token    string // who has it may ask; empty: everybody whom the port is open to
	Verified bool   // only who has Token or shows a certificate that is trusted may ask
	Local    bool   // the port is open to this machine only: whoever asks may describe requests
	Open     bool   // everybody may, without Token
	Edit     string // who has it may do everything
	EditOpen bool   // everybody who may ask may edit, too
}

// rights is what a request may do.
type rights uint8

const (
	nothing rights = iota
	asking
	editing
)

// of returns what the bearer of an Authorization field may do, and whether for a token.
// verified: the bearer has shown a certificate that is trusted.
func (a *Access) of(authorization []byte, verified bool) (r rights, tokened bool) {
	scheme, brought, _ := strings.Cut(string(authorization), " ")
	bears := func(token string) bool { // sums of equal length, so that the time tells nothing
		want, sum := sha256.Sum256([]byte(token)), sha256.Sum256([]byte(strings.TrimSpace(brought)))
		return token != "" && strings.EqualFold(scheme, "Bearer") && subtle.ConstantTimeCompare(want[:], sum[:]) == 1
	}
	switch {
	case a.Edit != "" && bears(a.Edit):
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

// describes reports whether whoever asks from an address may describe requests without a
// token.
func (a *Access) describes(from netip.Addr) bool {
	return a.Open && a.Token == "" || a.Local && from.IsLoopback()
}

// page reports whether a request may be one that a web page made in a browser which
// reaches the port. A host that is no loopback name may be one that the page has had
// resolved to this machine.
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
