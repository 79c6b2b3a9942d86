package keys

import (
	"bytes"

	"weir/internal/http1"
)

// A Request gives rules access to the parts of a request.
type Request interface {
	// Part returns the value of a part as written in the request, and whether the request
	// has it. The value of a query is not decoded, path and host are not normalized.
	// Values must stay valid as long as the rules' hits that were made from them. Part is
	// never called for global and ip, which are not in the text of the request.
	Part(p Part) (value []byte, ok bool)
}

// Word returns the part in the form of [ParsePart], split at the colon, without secret:
// and address prefixes: "header" and "x-plan", or "path" and "". Implementations of
// [Request] distinguish parts by it. Field names are case-insensitive; package keys uses
// lower case.
func (p Part) Word() (word, name string) { return sourceWords[p.Source], p.Name }

var sourceWords = [...]string{"", "global", "ip", "header", "cookie", "query", "path", "method", "host"}

// An HTTP is the head of an HTTP request as a [Request].
type HTTP http1.Head

// Part returns the value of a part.
func (h *HTTP) Part(p Part) (value []byte, ok bool) {
	switch p.Source {
	case Header:
		return (*http1.Head)(h).Field(p.Name)
	case Cookie:
		return h.cookie(p.Name)
	case Query:
		return h.query(p.Name)
	case Path:
		return h.Path, true
	case Method:
		return h.MethodText, true
	case Host:
		return h.Host, len(h.Host) > 0
	}
	return nil, false
}

// cookie returns the first cookie of that name (RFC 6265 section 4.2.1; names are
// case-sensitive), without quotes, which servers remove.
func (h *HTTP) cookie(name string) (text []byte, present bool) {
	for i := range h.Fields {
		if h.Fields[i].ID != http1.FieldCookie {
			continue
		}
		var pair []byte
		for rest := h.Fields[i].Value; len(rest) > 0; {
			pair, rest, _ = bytes.Cut(rest, []byte(";"))
			key, text, _ := bytes.Cut(trim(pair), []byte("="))
			if string(trim(key)) == name {
				return unquote(trim(text)), true
			}
		}
	}
	return nil, false
}

// query returns the first parameter of that name.
func (h *HTTP) query(name string) (text []byte, present bool) {
	var pair []byte
	for rest := h.Query; len(rest) > 0; {
		pair, rest, _ = bytes.Cut(rest, []byte("&"))
		if key, text, _ := bytes.Cut(pair, []byte("=")); decodesTo(key, name) {
			return text, true
		}
	}
	return nil, false
}

func unquote(text []byte) []byte {
	if n := len(text); n >= 2 && text[0] == '"' && text[n-1] == '"' {
		return text[1 : n-1]
	}
	return text
}

// trim removes the spaces and tabs around text.
func trim(text []byte) []byte { return bytes.Trim(text, " \t") }
