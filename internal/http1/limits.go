package http1

import (
	"math"
)

// Limits are the bounds of a Reader. Zero fields mean the defaults. Larger byte counts than
// math.MaxInt32, and other counts larger than math.MaxUint16, are reduced to these values.
type Limits struct {
	// HeadBytes bounds a head: start line, field lines and the empty line, including line ends.
	// Fields that proxies add do not count, up to 4 KiB: Via, X-Forwarded-For, -Host and -Proto,
	// Date, RateLimit and similar ones. Default 16 KiB (RFC 9112 3 recommends at least 8000 for a
	// request line); beyond: 414 for a request line, otherwise 431.
	HeadBytes int
	// Fields bounds the field lines of a head, without up to 16 that proxies add. Default 100;
	// beyond: 431.
	Fields int
	// EmptyLines bounds the empty lines skipped before a request line
	// (RFC 9112 2.2). Default 4; beyond: 400.
	EmptyLines int
	// Options bounds the options in all Connection fields of a head, including empty list
	// elements. Default 32; beyond: 400.
	Options int
	// Interims bounds the 1xx responses before a final one. Default 16; beyond: 502.
	Interims int
	// ChunkLineBytes bounds a chunk-size line with its extensions and CRLF.
	// Default 256; beyond: 400.
	ChunkLineBytes int
	// ChunkWasteBytes bounds the waste of chunk framing in one body: for each chunk 16 bytes plus
	// twice its data are free, and the bytes beyond that are added up. Default 16 KiB; beyond:
	// 400.
	ChunkWasteBytes int
	// TrailerBytes bounds a trailer section, including line ends. Default 16 KiB; beyond: 431.
	TrailerBytes int
}

// The defaults of Limits.
const (
	headBytesDefault       = 16 << 10
	fieldsDefault          = 100
	emptyLinesDefault      = 4
	optionsDefault         = 32
	interimsDefault        = 16
	chunkLineBytesDefault  = 256
	chunkWasteBytesDefault = 16 << 10
	trailerBytesDefault    = 16 << 10
)

// bounds are Limits with the defaults filled in, small enough to be part of each Reader. head and
// fields include the room for fields that proxies add.
type bounds struct {
	head, chunkLine, chunkWaste, trailer  int32
	fields, emptyLines, options, interims uint16
}

func (l *Limits) bounds() bounds {
	if l == nil {
		l = &Limits{}
	}
	return bounds{
		head:       int32(bound(l.HeadBytes, headBytesDefault, math.MaxInt32-addedBytesMax)) + addedBytesMax,
		chunkLine:  int32(bound(l.ChunkLineBytes, chunkLineBytesDefault, math.MaxInt32)),
		chunkWaste: int32(bound(l.ChunkWasteBytes, chunkWasteBytesDefault, math.MaxInt32)),
		trailer:    int32(bound(l.TrailerBytes, trailerBytesDefault, math.MaxInt32)),
		fields:     uint16(bound(l.Fields, fieldsDefault, math.MaxUint16-addedFieldsMax)) + addedFieldsMax,
		emptyLines: uint16(bound(l.EmptyLines, emptyLinesDefault, math.MaxUint16)),
		options:    uint16(bound(l.Options, optionsDefault, math.MaxUint16)),
		interims:   uint16(bound(l.Interims, interimsDefault, math.MaxUint16)),
	}
}

func bound(n, def, most int) int {
	if n <= 0 {
		return def
	}
	return min(n, most)
}
