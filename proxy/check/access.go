package check

import (
	"net/netip"

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
	switch field := string(authorization); {
	case http1.Bears(field, a.Edit):
		return editing, true
	case http1.Bears(field, a.Token):
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
// reaches the port; see [http1.Loopback].
func (a *Access) page(h *http1.Head) bool {
	_, origins := only(h, "Origin")
	_, sites := only(h, "Sec-Fetch-Site")
	return origins+sites > 0 || a.Local && !a.Open && !http1.Loopback(string(h.Host))
}
