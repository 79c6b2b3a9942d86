package check

import (
	"bytes"
	"net/netip"
	"strconv"

	"weir/internal/net/http1"
	"weir/proxy/rules/decide"
)

// AccessPolicy determines which requests are allowed.
//
// Immutable after New.
type AccessPolicy struct {
	Token    string // token required for asking; empty: none
	Verified bool   // asking requires Token or a trusted certificate
	Local    bool   // the port is reachable only from this machine, and every asker may describe requests
	Unix     bool   // it is a unix socket, which no web page reaches
	Open     bool   // asking needs no Token
	Edit     string // token that allows everything
	EditOpen bool   // every asker may also edit

	Port   int  // the port's number
	Secure bool // it speaks TLS
}

// rights are the allowed actions of a request.
type rights uint8

const (
	nothing rights = iota
	asking
	editing
)

// peer returns the address that an asker is known by: a loopback one if it has none, as with a unix socket.
func peer(from netip.Addr) netip.Addr {
	if !from.IsValid() {
		return netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	return decide.CanonicalAddr(from)
}

// of returns the rights of the sender of an Authorization field, and whether they come
// from a token. verified says that the sender has presented a trusted certificate.
func (a *AccessPolicy) of(authorization []byte, verified bool) (r rights, tokened bool) {
	switch field := string(authorization); {
	case http1.HasBearerToken(field, a.Edit):
		return editing, true
	case http1.HasBearerToken(field, a.Token):
		tokened = true
	case (a.Token != "" || a.Verified) && !verified:
		return nothing, false
	}
	if a.EditOpen {
		return editing, tokened
	}
	return asking, tokened
}

// untrusted returns why the sender of a question without a token may not describe a request, or "" if it may.
//
// A reverse proxy that asks forwards what browsers send, so Origin and Sec-Fetch-Site do not
// distinguish its request from one that a page in a browser makes by itself. Two things do. A
// page cannot add fields that describe a request, or X-Forwarded-For, to a request for another
// origin without a preflight, which is refused. And the request of a page whose name was resolved to
// this machine (DNS rebinding) has that name and our port in Host; a reverse proxy on this machine
// forwards such a Host only if it has the same port.
func (s *Session) untrusted(h *http1.Head) string {
	a, local, trusted := s.Access, s.remote.IsLoopback(), s.env.Trusted(s.remote)
	switch {
	case a.Unix:
		return ""
	case !trusted && !s.verified && !(a.Open && a.Token == "") && !(a.Local && local):
		return "asker is not trusted"
	case trusted && !local:
		return ""
	case local && !s.verified && !a.Open && a.origin(h.Host) && !http1.IsLoopback(string(h.Host)):
		return "asker may be a web page: Host has the number of this port and a name that is not a loopback one"
	}
	_, proxied := h.Value(http1.FieldXForwardedFor)
	if !proxied && bytes.HasPrefix(h.Path, []byte(pathPrefix+"/")) {
		return "asker may be a web page: X-Forwarded-For is missing"
	}
	return ""
}

// origin reports whether a Host field has the port's number.
func (a *AccessPolicy) origin(host []byte) bool {
	number := 80
	if a.Secure {
		number = 443
	}
	if i := bytes.LastIndexByte(host, ':'); i >= 0 && i+1 < len(host) && host[len(host)-1] != ']' {
		number, _ = strconv.Atoi(string(host[i+1:]))
	}
	return len(host) > 0 && number == a.Port
}

// page reports whether a request may have been made by a web page in a browser that
// reaches the port; see [http1.IsLoopback].
func (a *AccessPolicy) page(h *http1.Head) bool {
	if a.Unix {
		return false
	}
	_, origin := h.Field("Origin")
	_, site := h.Field("Sec-Fetch-Site")
	return origin || site || a.Local && !a.Open && !http1.IsLoopback(string(h.Host))
}
