package http1

import (
	"cmp"
	"math"
)

// Limits are the bounds of a Reader that programs may set. Zero fields mean the defaults. A larger
// HeadBytes than math.MaxInt32 and larger Fields than math.MaxUint16 are reduced to these values.
type Limits struct {
	// HeadBytes bounds a head: start line, field lines and the empty line, including line ends;
	// and in the same way a trailer section.
	// Fields that proxies add do not count, up to 4 KiB: Via, X-Forwarded-For, -Host and -Proto,
	// Date, RateLimit and similar ones. Default 16 KiB (RFC 9112 3 recommends at least 8000 for a
	// request line); beyond: 414 for a request line, otherwise 431.
	HeadBytes int
	// Fields bounds the field lines of a head, without up to 16 that proxies add. Default 100;
	// beyond: 431. A trailer section beyond it is dropped.
	Fields int
}

// The defaults of Limits, and the other bounds of a Reader.
const (
	headBytesDefault = 16 << 10
	fieldsDefault    = 100
	// emptyLinesMax bounds the empty lines skipped before a request line (RFC 9112 2.2); beyond: 400.
	emptyLinesMax = 4
	// optionsMax bounds the options in all Connection fields of a head, including empty list
	// elements; beyond: 400.
	optionsMax = 32
	// interimsMax bounds the 1xx responses before a final one; beyond: 502.
	interimsMax = 16
	// chunkLineBytesMax bounds a chunk-size line with its extensions and CRLF; beyond: 400.
	chunkLineBytesMax = 256
	// chunkWasteBytesMax bounds the waste of chunk framing in one body, see waste; beyond: 400.
	chunkWasteBytesMax = 16 << 10
)

// Bounds returns the bounds of a head that apply while it is read: they include the room for fields
// that proxies add.
func (l *Limits) Bounds() (bytesMax int32, fieldsMax uint16) {
	if l == nil {
		l = &Limits{}
	}
	return int32(min(cmp.Or(l.HeadBytes, headBytesDefault), math.MaxInt32-addedBytesMax)) + addedBytesMax,
		uint16(min(cmp.Or(l.Fields, fieldsDefault), math.MaxUint16-addedFieldsMax)) + addedFieldsMax
}
