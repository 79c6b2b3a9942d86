package exchange

import (
	"bytes"
	"strings"

	"weir/internal/net/http1"
)

// inLoop reports whether a request has passed this proxy before: a Via or CDN-Loop field
// names it.
func (x *Exchange) inLoop(h *http1.Head) bool {
	if !h.MayHave(http1.FieldVia) && !h.MayHave(http1.FieldCDNLoop) {
		return false
	}
	for i := range h.Fields {
		f := &h.Fields[i]
		if (f.ID == http1.FieldVia || f.ID == http1.FieldCDNLoop) && names(f.Value, x.env.Settings.Pseudonym) {
			return true
		}
	}
	return false
}

// names reports whether the value of a Via or CDN-Loop field has the pseudonym
// as a word.
func names(value []byte, pseudonym string) bool {
	for word := range bytes.FieldsFuncSeq(value, func(r rune) bool { return strings.ContainsRune(" \t,;", r) }) {
		if string(word) == pseudonym {
			return true
		}
	}
	return false
}

// appendPassage appends the field by which this proxy recognizes a request that has passed
// it: Via, or CDN-Loop (RFC 8586).
func (x *Exchange) appendPassage(dst []byte, minor int) []byte {
	if x.env.Settings.Via {
		return x.appendVia(dst, x.HTTP2, minor)
	}
	return http1.AppendField(dst, "CDN-Loop", x.env.Settings.Pseudonym)
}

// appendVia appends the proxy's Via for a message received by HTTP/2 or as HTTP/1.minor, unless Via is
// off (RFC 9110 section 7.6.3).
func (x *Exchange) appendVia(dst []byte, http2 bool, minor int) []byte {
	if !x.env.Settings.Via {
		return dst
	}
	major := byte('1')
	if http2 {
		major, minor = '2', 0
	}
	dst = append(append(dst, "Via: "...), major, '.', '0'+byte(minor), ' ')
	dst = append(dst, x.env.Settings.Pseudonym...)
	return append(dst, "\r\n"...)
}
