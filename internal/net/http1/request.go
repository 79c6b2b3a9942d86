package http1

import "bytes"

// requestLine parses the request line at the beginning of b into h and returns its length with
// the CRLF (RFC 9112 3), or 0 if it is not well-formed. The fault is valid only if b is one
// complete line.
func requestLine(b []byte, h *Head) (n int, f fault) {
	i := 0
	for i < len(b) && tokenClass[b[i]] != classEnd {
		i++
	}
	if i == len(b) || b[i] != ' ' || i == 0 {
		return 0, methodFault(b, i)
	}
	h.MethodText = b[:i:i]
	h.Method = MethodOf(h.MethodText)
	start := i + 1
	length, has := targetLen(b[start:])
	end := start + length
	if end == len(b) || end == start || b[end] != ' ' {
		return 0, targetEndFault(b, start, end)
	}
	h.Target = b[start:end:end]
	n, f = version(b[end+1:], h)
	if n == 0 || f != noFault {
		return 0, f
	}
	if f = target(h, has); f != noFault {
		return 0, f
	}
	return end + 1 + n, noFault
}

// Classes of bytes in a request target.
const (
	targetPlain  = 0
	targetQuery  = 1 // '?'
	targetEscape = 2 // '%'
	targetBad    = 4 // '#'
	targetEnd    = 0x80
)

// targetClass is the class of each byte.
var targetClass = targetClasses()

func targetClasses() (t [256]uint8) {
	for c := range t {
		if c <= ' ' || c >= 0x7f {
			t[c] = targetEnd
		}
	}
	t['?'], t['%'], t['#'] = targetQuery, targetEscape, targetBad
	return t
}

// targetLen returns the length of the request target at the beginning of b, and the classes of its
// bytes.
func targetLen(b []byte) (n int, has uint8) {
	for n, c := range b {
		class := targetClass[c]
		if class == targetEnd {
			return n, has
		}
		has |= class
	}
	return len(b), has
}

func methodFault(b []byte, i int) fault {
	if i == len(b) || b[i] == '\r' || b[i] == ' ' {
		return faultRequestLine
	}
	return faultMethod
}

func targetEndFault(b []byte, start, end int) fault {
	if end == len(b) || end == start || b[end] == '\r' {
		return faultRequestLine
	}
	return faultTarget
}

// version parses "HTTP/1.x" and the following CRLF, and returns their length.
func version(b []byte, h *Head) (n int, f fault) {
	const shape = "HTTP/1.1\r\n"
	if len(b) >= len(shape) && string(b[:len(shape)]) == shape {
		h.Minor = 1
		return len(shape), noFault
	}
	if f = protocol(b, h); f != noFault {
		return 0, f
	}
	if len(b) < len(shape) || string(b[8:10]) != "\r\n" {
		return 0, faultVersion
	}
	return len(shape), noFault
}

// protocol parses the eight bytes "HTTP/1.x" (RFC 9112 2.3).
func protocol(b []byte, h *Head) fault {
	if len(b) < 8 || string(b[:5]) != "HTTP/" || !isDigit(b[5]) || b[6] != '.' || !isDigit(b[7]) {
		return faultVersion
	}
	if b[5] != '1' {
		return faultVersionUnknown
	}
	h.Minor = int(b[7] - '0')
	return noFault
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// target splits h.Target by its form (RFC 9112 3.2). The target consists of visible ASCII with
// the classes of bytes in has. Characters that browsers send unescaped contrary to RFC 3986 are
// accepted (quotes, braces, '|', '\', '^', and '%' in a query); a fragment and a broken escape in
// the path are not.
func target(h *Head, has uint8) fault {
	t := h.Target
	switch {
	case has&targetBad != 0:
		return faultTarget
	case h.Method == CONNECT:
		h.Form, h.Path, h.Query, h.Host = FormAuthority, nil, nil, t
		if !validHost(t) || !hasPort(t) {
			return faultTarget
		}
		return noFault
	case t[0] == '/':
		h.Form, h.Host = FormOrigin, nil
		return pathAndQuery(t, h, has)
	case h.Method == OPTIONS && len(t) == 1 && t[0] == '*':
		h.Form, h.Path, h.Query, h.Host = FormAsterisk, t, nil, nil
		return noFault
	}
	n := schemeLen(t)
	if n == 0 {
		return faultTarget
	}
	end := n
	for end < len(t) && t[end] != '/' && t[end] != '?' {
		end++
	}
	h.Form, h.Host = FormAbsolute, t[n:end:end]
	if !validHost(h.Host) {
		return faultHost
	}
	return pathAndQuery(t[end:], h, has)
}

// schemeLen returns the length of "http://" or "https://" at the beginning of t, ignoring case,
// or 0.
func schemeLen(t []byte) int {
	for _, scheme := range [...]string{"http://", "https://"} {
		if n := len(scheme); len(t) >= n && foldEqual(t[:n], scheme) {
			return n
		}
	}
	return 0
}

func pathAndQuery(t []byte, h *Head, has uint8) fault {
	h.Path, h.Query = t, nil
	if has&targetQuery != 0 {
		if q := bytes.IndexByte(t, '?'); q >= 0 {
			h.Path, h.Query = t[:q:q], t[q+1:]
		}
	}
	if has&targetEscape != 0 && !validEscapes(h.Path) {
		return faultTarget
	}
	return noFault
}

// validEscapes reports whether each '%' begins an escape (RFC 3986 2.1).
func validEscapes(b []byte) bool {
	for {
		i := bytes.IndexByte(b, '%')
		if i < 0 {
			return true
		}
		if i+2 >= len(b) || !IsHex(b[i+1]) || !IsHex(b[i+2]) {
			return false
		}
		b = b[i+3:]
	}
}
