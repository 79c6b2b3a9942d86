package keys

import (
	"bytes"

	"weir/internal/http1"
)

// A Request is the head of a request, of which rules see the parts.
type Request http1.Head

// Part returns the value of a field, cookie or parameter as written in the request, and whether
// the request has it. The value of a parameter is not decoded.
func (r *Request) Part(p Part) (value []byte, ok bool) {
	switch p.Source {
	case Header:
		return (*http1.Head)(r).Field(p.Name)
	case Cookie:
		return r.cookie(p.Name)
	case Query:
		return r.query(p.Name)
	}
	return nil, false
}

// cookie returns the first cookie of that name (RFC 6265 section 4.2.1; names are
// case-sensitive), without quotes, which servers remove.
func (r *Request) cookie(name string) (text []byte, present bool) {
	for i := range r.Fields {
		if r.Fields[i].ID != http1.FieldCookie {
			continue
		}
		var pair []byte
		for rest := r.Fields[i].Value; len(rest) > 0; {
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
func (r *Request) query(name string) (text []byte, present bool) {
	var pair []byte
	for rest := r.Query; len(rest) > 0; {
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
