package http1

import (
	"bytes"
	"math"
)

const (
	// chunkDigitsMax bounds the hexadecimal digits of a chunk size, including leading zeros.
	chunkDigitsMax = 16
	// The framing of a chunk may take chunkFree bytes plus chunkFreeFactor for each byte of data
	// before it counts as waste.
	chunkFree       = 16
	chunkFreeFactor = 2
)

// chunked continues to read a chunked body (RFC 9112 7.1).
func (r *Reader) chunked(b []byte) (Event, error) {
	n := 0
	if r.state == stateChunkEnd {
		switch {
		case len(b) > 0 && b[0] != '\r' || len(b) > 1 && b[1] != '\n':
			return r.fail(faultChunkEnd)
		case len(b) < 2:
			return Event{}, nil
		}
		n, r.state = 2, stateChunkLine
	}
	if r.state == stateChunkLine {
		size, f := r.chunkLine(b[n:])
		if f != noFault {
			return r.fail(f)
		}
		if size == 0 {
			return Event{N: int32(n)}, nil
		}
		n += size
	}
	if r.state == stateTrailer {
		return r.trailers(b, n)
	}
	if n == len(b) {
		return Event{N: int32(n)}, nil
	}
	end := n + int(min(int64(len(b)-n), r.left))
	if r.left -= int64(end - n); r.left == 0 {
		r.state = stateChunkEnd
	}
	return Event{Kind: Data, Data: b[n:end:end], N: int32(end)}, nil
}

// chunkLine reads a chunk-size line and returns its length, or 0 if it is not complete.
func (r *Reader) chunkLine(b []byte) (n int, f fault) {
	n, f = scanLine(b, int(r.seen), chunkLineBytesMax, faultChunkLineTooLong)
	if n == 0 {
		r.seen = int32(len(b))
		return 0, f
	}
	r.seen = 0
	size, i, f := chunkSize(b[:n])
	if f != noFault {
		return 0, f
	}
	if !validExtensions(b[i : n-2]) {
		return 0, faultChunkExtension
	}
	if size == 0 {
		r.state = stateTrailer
		return n, noFault
	}
	r.state, r.left = stateChunkData, size
	return n, r.waste(n, size)
}

// waste adds up the bytes of chunk framing beyond a free share, so that a client cannot cause
// much work by little data (RFC 9112 7.1.1).
func (r *Reader) waste(line int, size int64) fault {
	spent := int64(r.wasted) + int64(line+len("\r\n"))
	r.wasted = int32(max(0, spent-chunkFree-chunkFreeFactor*min(size, spent)))
	if r.wasted > chunkWasteBytesMax {
		return faultChunkWaste
	}
	return noFault
}

// chunkSize parses the size at the beginning of a chunk line. It returns the size and the index
// of the first byte after it.
func chunkSize(line []byte) (size int64, i int, f fault) {
	n := uint64(0)
	for IsHex(line[i]) {
		if i == chunkDigitsMax {
			return 0, 0, faultChunkSizeTooLarge
		}
		n = n<<4 | uint64(HexValue(line[i]))
		i++
	}
	switch c := line[i]; {
	case i == 0, c != '\r' && c != ';' && c != ' ' && c != '\t':
		return 0, 0, faultChunkSize
	case n > math.MaxInt64:
		return 0, 0, faultChunkSizeTooLarge
	}
	return int64(n), i, noFault
}

// validExtensions checks chunk extensions, which are then ignored
// (RFC 9112 7.1.1):
//
//	*( BWS ";" BWS name [ BWS "=" BWS ( token / quoted-string ) ] )
func validExtensions(e []byte) bool {
	for len(e) > 0 {
		e = skipBlanks(e)
		if len(e) == 0 || e[0] != ';' {
			return false
		}
		n := 0
		if e, n = skipToken(skipBlanks(e[1:])); n == 0 {
			return false
		}
		after := skipBlanks(e)
		if len(after) == 0 || after[0] != '=' {
			continue
		}
		after = skipBlanks(after[1:])
		if len(after) > 0 && after[0] == '"' {
			e, n = skipQuoted(after)
		} else {
			e, n = skipToken(after)
		}
		if n == 0 {
			return false
		}
	}
	return true
}

func skipBlanks(b []byte) []byte { return bytes.TrimLeft(b, " \t") }

// skipToken returns the rest of b after the token at its beginning, and the length of the token.
func skipToken(b []byte) (rest []byte, n int) {
	for n < len(b) && tokenClass[b[n]] != classEnd {
		n++
	}
	return b[n:], n
}

// skipQuoted returns the rest of b after the quoted string at its beginning (RFC 9110 5.6.4), and
// the length of the string, or 0 if it does not end.
func skipQuoted(b []byte) (rest []byte, n int) {
	for n = 1; n < len(b); n++ {
		switch b[n] {
		case '"':
			return b[n+1:], n + 1
		case '\\':
			n++
		}
	}
	return b, 0
}

// CutUnquoted cuts b around the first separator that is not in a quoted string (RFC 9110 5.6.4).
func CutUnquoted(b []byte, separator byte) (before, after []byte) {
	quoted := false
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case c == '"':
			quoted = !quoted
		case c == '\\' && quoted:
			i++
		case c == separator && !quoted:
			return b[:i], b[i+1:]
		}
	}
	return b, nil
}
