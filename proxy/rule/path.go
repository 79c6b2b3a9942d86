package rule

// AppendPath appends the normal form of a request's path, which is what rules
// match and what the key part path is. The path that is forwarded stays as it
// was sent.
//
// The form is the one that RFC 3986 section 6.2.2 calls syntax-based, with
// slashes merged: whoever writes the same path in another way meets the same
// rule.
//
//   - Escapes of what may stand in a segment as it is (unreserved, sub-delims,
//     ':' and '@') are decoded, all other bytes are escaped, in upper case. An
//     escaped slash stays escaped and parts no segments.
//   - Empty segments and "." go, ".." takes the segment before it along; above
//     the root there is nothing. So there is no slash at the end either.
//   - A path that does not begin with a slash (the empty one, and the * of
//     OPTIONS) gets one.
//
// It is defined for all bytes, and of a normal form it is that form. Letters
// keep their case, and ';' has no meaning. A target that decodes %2F before it
// routes, or ignores case or what follows a ';', sees fewer paths than rules do:
// limit such a target by rules that end in /** or have no path.
func AppendPath(dst, path []byte) []byte {
	start := len(dst)
	for len(path) > 0 {
		if path[0] == '/' {
			path = path[1:]
			continue
		}
		segment := len(dst)
		dst = append(dst, '/')
		dst, path = appendSegment(dst, path)
		switch string(dst[segment:]) {
		case "/.":
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
func appendSegment(dst, path []byte) (out, rest []byte) {
	for i := 0; i < len(path); i++ {
		c := path[i]
		switch {
		case c == '/':
			return dst, path[i:]
		case c == '%' && i+2 < len(path) && isHex(path[i+1]) && isHex(path[i+2]):
			dst = appendOctet(dst, hexValue(path[i+1])<<4|hexValue(path[i+2]))
			i += 2
		default:
			dst = appendOctet(dst, c)
		}
	}
	return dst, nil
}

// appendOctet appends one byte of a segment in its one way to be written.
func appendOctet(dst []byte, c byte) []byte {
	const digits = "0123456789ABCDEF"
	if segmentBytes[c] {
		return append(dst, c)
	}
	return append(dst, '%', digits[c>>4], digits[c&15])
}

// isNormal says whether a path is its own normal form at a glance: it may say no
// of one that is.
func isNormal(path []byte) bool {
	if len(path) == 0 || path[0] != '/' || len(path) > 1 && path[len(path)-1] == '/' {
		return false
	}
	last := byte(0)
	for _, c := range path {
		if last == '/' && (c == '/' || c == '.') || c != '/' && !segmentBytes[c] {
			return false
		}
		last = c
	}
	return true
}

// segmentBytes are the bytes that stand for themselves in a segment: pchar of
// RFC 3986 section 3.3 without the escapes.
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

func isHex(c byte) bool {
	return c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'f'
}

func hexValue(c byte) byte {
	if c <= '9' {
		return c - '0'
	}
	return c | 0x20 - 'a' + 10
}
