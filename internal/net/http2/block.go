package http2

import (
	"slices"

	"weir/internal/net/http1"
)

// A blockForm is what a field block is.
type blockForm uint8

const (
	formRequest blockForm = iota
	formResponse
	formTrailers
	formIgnored // of a stream that we have reset
)

// pseudo-header fields (RFC 9113 8.3).
const (
	pseudoMethod = 1 << iota
	pseudoScheme
	pseudoAuthority
	pseudoPath
	pseudoStatus
	hostField // not a pseudo-header field, but recorded here: a Host field that agrees with :authority
)

// A Head is the head that was read last. One Head may be used by all Conns of a loop. It is valid until it is used
// again: its slices are parts of a buffer that it keeps.
//
// Its Fields have a Host field where the request has :authority, and one Cookie field with all cookies (RFC 9113
// 8.2.3), as in HTTP/1.1. Its target has the form FormOrigin, FormAsterisk or, with CONNECT, FormAuthority.
//
// Owned by its loop.
type Head struct {
	http1.Head

	text []byte // what the slices refer to
	form blockForm
	// size and count are those of the fields so far, in the measure of RFC 9113 6.5.2.
	size, count         int
	bytesMax, fieldsMax int
	seen                uint8  // pseudo-header fields
	port                string // that the scheme implies
	regular             bool   // a field that is none was seen
	cookies             int
	large               error  // beyond the bounds: what follows is only counted
	malformed, fatal    *Error // the first faults: of the stream, of the connection
}

// begin empties h for a new field block.
func (h *Head) begin(form blockForm, bytesMax, fieldsMax int) {
	h.Begin()
	*h = Head{Head: h.Head, text: h.text[:0], form: form, bytesMax: bytesMax, fieldsMax: fieldsMax}
}

// keep copies s to the buffer. Growing it does not change what earlier slices refer to.
func (h *Head) keep(s string) []byte {
	n := len(h.text)
	h.text = append(h.text, s...)
	return h.text[n:len(h.text):len(h.text)]
}

// addPseudo adds a pseudo-header field (RFC 9113 8.3). They come once each and before other fields.
func (h *Head) addPseudo(name, value string) *Error {
	var which uint8
	switch name {
	case ":method":
		which, h.MethodText = pseudoMethod, h.keep(value)
	case ":path":
		which, h.Target = pseudoPath, h.keep(value)
	case ":scheme":
		which = pseudoScheme
	case ":authority":
		which = pseudoAuthority
	case ":status":
		which = pseudoStatus
	}
	allowed := uint8(pseudoMethod | pseudoScheme | pseudoAuthority | pseudoPath)
	if h.form != formRequest {
		allowed = pseudoStatus
	}
	if h.form == formTrailers || h.regular || which&allowed == 0 || which&h.seen != 0 {
		return errPseudo
	}
	h.seen |= which
	switch which {
	case pseudoScheme:
		switch v := h.keep(value); {
		case http1.EqualFold(v, "http"):
			h.port = "80"
		case http1.EqualFold(v, "https"):
			h.port = "443"
		default:
			return errPseudo
		}
	case pseudoAuthority:
		if _, ok := h.Add(h.keep("host"), h.keep(value)); !ok {
			return errPseudo
		}
	case pseudoStatus:
		if h.Status = http1.StatusCode(h.keep(value)); h.Status == 0 {
			return errPseudo
		}
	}
	return nil
}

// addField adds a field that is no pseudo-header field (RFC 9113 8.2).
func (h *Head) addField(name, value string) *Error {
	h.regular = true
	v := h.keep(value)
	id, ok := h.Add(h.keep(name), v)
	switch {
	case !ok || ofConnection(id, v):
		return errField
	case id == http1.FieldCookie:
		h.cookies++
	case id == http1.FieldHost && h.seen&pseudoAuthority != 0:
		if !http1.SameHost(v, h.Fields[0].Value, h.port) {
			return errHosts
		}
		if h.seen&hostField == 0 { // a second one stays, and is refused as in HTTP/1.1
			h.Fields = h.Fields[:len(h.Fields)-1]
		}
		h.seen |= hostField
	}
	return nil
}

// ofConnection reports whether a field is of an HTTP/1.1 connection, and must not be in HTTP/2 (RFC 9113 8.2.2).
func ofConnection(id http1.FieldID, value []byte) bool {
	switch id {
	case http1.FieldConnection, http1.FieldKeepAlive, http1.FieldProxyConnection, http1.FieldTransferEncoding,
		http1.FieldUpgrade:
		return true
	}
	return id == http1.FieldTE && !http1.EqualFold(value, "trailers")
}

// finishRequest checks what the pseudo-header fields of a request must be (RFC 9113 8.3.1, 8.5), and joins its
// cookies.
func (h *Head) finishRequest() *Error {
	const all = pseudoMethod | pseudoScheme | pseudoPath
	switch {
	case h.malformed != nil:
		return h.malformed
	case string(h.MethodText) == "CONNECT":
		if h.seen != pseudoMethod|pseudoAuthority {
			return errPseudo
		}
		h.Target = h.Fields[0].Value
	case h.seen&all != all:
		return errMissing
	case len(h.Target) == 0 || h.Target[0] != '/' &&
		(string(h.Target) != "*" || string(h.MethodText) != "OPTIONS"):
		return errPseudo
	}
	if h.cookies > 1 {
		h.joinCookies()
	}
	return nil
}

// joinCookies makes one Cookie field of several, at the place of the first.
func (h *Head) joinCookies() {
	isCookie := func(f http1.Field) bool { return f.ID == http1.FieldCookie }
	n, first := len(h.text), slices.IndexFunc(h.Fields, isCookie)
	for i := first; i < len(h.Fields); i++ {
		if isCookie(h.Fields[i]) {
			h.text = append(append(h.text, h.Fields[i].Value...), "; "...)
		}
	}
	h.Fields[first].Value = h.text[n : len(h.text)-len("; ") : len(h.text)]
	rest := slices.DeleteFunc(h.Fields[first+1:], isCookie)
	h.Fields = h.Fields[:first+1+len(rest)]
}
