package http2

import (
	"strconv"

	"weir/internal/net/http1"
)

// The encoder of field blocks uses the static table only, and no Huffman code: it has no state, allocates nothing,
// and what it appends can be taken back. Its first block says so by setting the size of the dynamic table to 0,
// whatever the peer allows (RFC 7541 4.2).

// Representations (RFC 7541 6), with how many bits of the first byte are of the index.
const (
	indexed      = 0x80 // 7 bits
	literal      = 0x00 // 4 bits: without indexing
	literalNever = 0x10 // 4 bits: never indexed, for values that are secret (RFC 7541 7.1.3)
	sizeUpdate   = 0x20 // 5 bits
)

// Indices of the static table (RFC 7541 appendix A). Where two fields have the same name it is the first.
const (
	indexAuthority = 1
	indexMethod    = 2
	indexPath      = 4
	indexScheme    = 6
	indexStatus    = 8
)

// nameIndices are the indices of names in the static table.
var nameIndices = [...]uint8{
	http1.FieldProxyAuthenticate:  48,
	http1.FieldProxyAuthorization: 49,
	http1.FieldContentLength:      28,
	http1.FieldExpect:             35,
	http1.FieldAccept:             19,
	http1.FieldAuthorization:      23,
	http1.FieldContentEncoding:    26,
	http1.FieldContentType:        31,
	http1.FieldCookie:             32,
	http1.FieldDate:               33,
	http1.FieldLocation:           46,
	http1.FieldMaxForwards:        47,
	http1.FieldRetryAfter:         53,
	http1.FieldServer:             54,
	http1.FieldSetCookie:          55,
	http1.FieldUserAgent:          58,
	http1.FieldVia:                60,
	http1.FieldWWWAuthenticate:    61,
}

// statusIndices are the statuses that the static table has with their value, from indexStatus on.
var statusIndices = [...]int{200, 204, 206, 304, 400, 404, 500}

// appendInt appends an integer with a prefix of that many bits, of which the other ones are first (RFC 7541 5.1).
func appendInt(dst []byte, first byte, bits uint, n int) []byte {
	most := 1<<bits - 1
	if n < most {
		return append(dst, first|byte(n))
	}
	dst = append(dst, first|byte(most))
	for n -= most; n >= 0x80; n >>= 7 {
		dst = append(dst, byte(n)|0x80)
	}
	return append(dst, byte(n))
}

// appendText appends a string literal (RFC 7541 5.2).
func appendText[T ~string | ~[]byte](dst []byte, s T) []byte {
	return append(appendInt(dst, 0, 7, len(s)), s...)
}

// appendNamed appends a field whose name is in the static table.
func appendNamed[T ~string | ~[]byte](dst []byte, kind byte, index int, value T) []byte {
	return appendText(appendInt(dst, kind, 4, index), value)
}

// appendStatus appends :status.
func appendStatus(dst []byte, status int) []byte {
	for i, s := range statusIndices {
		if s == status {
			return append(dst, indexed|byte(indexStatus+i))
		}
	}
	dst = append(appendInt(dst, literal, 4, indexStatus), 3)
	return strconv.AppendInt(dst, int64(status), 10)
}

// appendKnown appends a pseudo-header field, of which the static table has these two values, beginning at index.
func appendKnown(dst []byte, index int, value []byte, first, second string) []byte {
	switch string(value) {
	case first:
		return append(dst, indexed|byte(index))
	case second:
		return append(dst, indexed|byte(index+1))
	}
	return appendNamed(dst, literal, index, value)
}

// appendFields appends field lines with names in lower case, except those of an HTTP/1.1 connection (RFC 9113 8.2.2).
// With request, Host is not appended either, which becomes :authority. It returns the size of what it has appended,
// in the measure of RFC 9113 6.5.2.
func appendFields(dst, lines []byte, request bool) (out []byte, size int) {
	for f := range http1.FieldLines(lines) {
		if ofConnection(f.ID, f.Value) || request && f.ID == http1.FieldHost {
			continue
		}
		kind := byte(literal)
		switch f.ID {
		case http1.FieldAuthorization, http1.FieldCookie, http1.FieldSetCookie, http1.FieldProxyAuthorization:
			kind = literalNever
		}
		size += len(f.Name) + len(f.Value) + 32
		if i := int(f.ID); i < len(nameIndices) && nameIndices[i] > 0 {
			dst = appendNamed(dst, kind, int(nameIndices[i]), f.Value)
			continue
		}
		dst = appendLower(append(dst, kind), f.Name)
		dst = appendText(dst, f.Value)
	}
	return dst, size
}

// appendLower appends a name as a string literal in lower case.
func appendLower(dst, name []byte) []byte {
	dst = appendText(dst, name)
	for i, c := range dst[len(dst)-len(name):] {
		if 'A' <= c && c <= 'Z' {
			dst[len(dst)-len(name)+i] = c | 0x20
		}
	}
	return dst
}
