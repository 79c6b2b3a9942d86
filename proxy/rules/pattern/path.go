package pattern

import (
	"bytes"

	"weir/internal/net/http1"
)

// An interpretation is a way to interpret a path. Targets differ in two respects:
//
//   - An escaped slash (%2F) belongs to its segment (RFC 3986), or separates
//     segments: nginx, PHP and Apache decode the path before they interpret it.
//   - What follows a ';' in a segment belongs to it (nginx, PHP), or is parameters
//     that are not part of the name: Tomcat, Jetty and Spring drop them before they
//     decode the path.
//
// So a path with both has four interpretations, and a path with neither has one. A rule applies
// to a request if its match, or the value of a descriptor's key path, matches one of the
// interpretations. A value exempts a path from the limit of the key without a value only if it
// does so in all interpretations.
type interpretation uint8

const (
	readSlashes interpretation = 1 << iota // escaped slashes separate segments
	readNames                              // parameters are dropped
)

// InterpretationsMax is the largest number of interpretations of a path.
const InterpretationsMax = 4

// appendInterpretation appends the normal form of a request's path in one interpretation. The path is
// forwarded unchanged.
//
// The form is the syntax-based normalization of RFC 3986 section 6.2.2, with slashes
// merged, so that the same path written differently matches the same rule.
//
//   - Characters that a segment may contain unescaped (unreserved, sub-delims, ':' and
//     '@') are decoded. All other bytes are escaped, in upper case. Nothing is decoded
//     twice.
//   - Empty segments and "." are removed. ".." is removed together with the segment
//     before it, if there is one. So the path does not end in a slash.
//   - A path that does not begin with a slash (the empty path, and the * of OPTIONS)
//     gets one.
//
// It is defined for all bytes, and normalizing twice changes nothing. Letters
// keep their case, and a backslash is not a slash. For a target that ignores case or
// treats backslashes as slashes, use rules that end in /** or have no path.
func appendInterpretation(dst, path []byte, r interpretation) []byte {
	start := len(dst)
	for len(path) > 0 {
		if n := slash(path, r); n > 0 {
			path = path[n:]
			continue
		}
		segment := len(dst)
		dst = append(dst, '/')
		dst, path = appendSegment(dst, path, r)
		switch string(dst[segment:]) {
		case "/", "/.": // also if only parameters follow
			dst = dst[:segment]
		case "/..":
			dst = dst[:parent(dst, start, segment)]
		}
	}
	if len(dst) == start {
		dst = append(dst, '/')
	}
	return dst
}

// AppendNormalPath appends the normal form of a path as interpreted by RFC 3986.
func AppendNormalPath(dst, path []byte) []byte { return appendInterpretation(dst, path, 0) }

// AppendPathPart appends a path in the form used as a key part: the interpretation that decodes and
// removes most. If the other interpretations of a request's path lead to a different form, the
// request has no value: nginx reads /a/x;%2F..%2Fb as /a/b and Tomcat as /a/x, so with
// either as the key a client could reach one resource under any number of keys.
func AppendPathPart(dst, path []byte) []byte {
	return appendInterpretation(dst, path, readSlashes|readNames)
}

// AppendInterpretations appends all interpretations of a path to memory and returns them in all[:n]. The
// last one is that of AppendPathPart.
func AppendInterpretations(buf, path []byte, all *[InterpretationsMax][]byte) (out []byte, n int) {
	slashes, names := false, false
	for i, c := range path {
		names = names || c == ';'
		if c == '%' && i+2 < len(path) {
			slashes = slashes || slash(path[i:], readSlashes) > 0
			names = names || path[i+1] == '3' && path[i+2]|0x20 == 'b'
		}
	}
	for r := range interpretation(InterpretationsMax) {
		if r&readSlashes != 0 && !slashes || r&readNames != 0 && !names {
			continue
		}
		start := len(buf)
		buf = appendInterpretation(buf, path, r)
		all[n] = buf[start:]
		n++
	}
	return buf, n
}

// UnambiguousPathPart returns the form of [AppendPathPart] if all interpretations of a path lead to it. However a
// target reads paths, all spellings of one path have the same form, or none. memory is
// scratch space for the comparison.
func UnambiguousPathPart(buf []byte, interpretations [][]byte) (out, path []byte, ok bool) {
	last := len(interpretations) - 1
	for _, other := range interpretations[:last] {
		start := len(buf)
		buf = AppendPathPart(buf, other)
		if !bytes.Equal(buf[start:], interpretations[last]) {
			return buf, nil, false
		}
	}
	return buf, interpretations[last], true
}

// slash returns the length of the slash at the beginning of path, or 0.
func slash(path []byte, r interpretation) int {
	switch {
	case path[0] == '/':
		return 1
	case r&readSlashes != 0 && path[0] == '%' && len(path) > 2 && path[1] == '2' && path[2]|0x20 == 'f':
		return len("%2F")
	}
	return 0
}

// parent returns where the segment before the one at segment begins.
func parent(dst []byte, start, segment int) int {
	for segment > start {
		if segment--; dst[segment] == '/' {
			break
		}
	}
	return segment
}

// appendSegment appends the normal form of path up to the next slash, and
// returns the rest.
func appendSegment(dst, path []byte, r interpretation) (out, rest []byte) {
	for i := 0; i < len(path); i++ {
		c := path[i]
		switch {
		case slash(path[i:], r) > 0:
			return dst, path[i:]
		case c == ';' && r&readNames != 0:
			end := bytes.IndexByte(path[i:], '/')
			if end < 0 {
				return dst, nil
			}
			return dst, path[i+end:]
		case c == '%' && i+2 < len(path) && http1.IsHex(path[i+1]) && http1.IsHex(path[i+2]):
			c = http1.HexValue(path[i+1])<<4 | http1.HexValue(path[i+2])
			if i += 2; c == ';' && r&readNames != 0 { // an escaped ; does not begin parameters
				dst = append(dst, "%3B"...)
				continue
			}
			dst = appendOctet(dst, c)
		default:
			dst = appendOctet(dst, c)
		}
	}
	return dst, nil
}

// appendOctet appends one byte of a segment in its normal form.
func appendOctet(dst []byte, c byte) []byte {
	const digits = "0123456789ABCDEF"
	if segmentBytes[c] {
		return append(dst, c)
	}
	return append(dst, '%', digits[c>>4], digits[c&15])
}

// IsNormal reports whether all interpretations of a path equal the path. It is a quick check, and
// may return false although they do.
func IsNormal(path []byte) bool {
	if len(path) == 0 || path[0] != '/' || len(path) > 1 && path[len(path)-1] == '/' {
		return false
	}
	last := byte(0)
	for _, c := range path {
		if last == '/' && (c == '/' || c == '.') || c != '/' && !segmentBytes[c] || c == ';' {
			return false
		}
		last = c
	}
	return true
}

// IsSegmentByte reports whether c is written unescaped in a segment.
func IsSegmentByte(c byte) bool { return segmentBytes[c] }

// segmentBytes are the bytes that are written unescaped in a segment: pchar of RFC 3986
// section 3.3 without escapes.
var segmentBytes = segmentTable()

func segmentTable() (t [256]bool) {
	for c := range t {
		b := byte(c)
		t[c] = b|0x20 >= 'a' && b|0x20 <= 'z' || b >= '0' && b <= '9'
	}
	for _, c := range []byte("-._~!$&'()*+,;=:@") {
		t[c] = true
	}
	return t
}
