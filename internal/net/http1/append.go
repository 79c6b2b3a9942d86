package http1

import "strconv"

// The functions here append parts of a message to dst and return it, without allocation if dst
// has room. They do not check their arguments: names and values must be well-formed, like those
// of a parsed Head.

// AppendRequestLine appends the request line for forwarding h to an origin server: its method, its
// target by AppendTarget, and our own version (RFC 9110 6.2).
func AppendRequestLine(dst []byte, h *Head) []byte {
	dst = AppendTarget(append(append(dst, h.MethodText...), ' '), h)
	return append(dst, " HTTP/1.1\r\n"...)
}

// AppendTarget appends the target of h for an origin server: in origin-form or asterisk-form, as sent,
// without the parts that only absolute-form has (RFC 9112 3.2.1, 3.2.4).
func AppendTarget(dst []byte, h *Head) []byte {
	switch {
	case h.Form != FormAbsolute:
		return append(dst, h.Target...)
	case len(h.Path) > 0:
		dst = append(dst, h.Path...)
	case h.Method == OPTIONS && h.Query == nil:
		dst = append(dst, '*')
	default:
		dst = append(dst, '/')
	}
	if h.Query != nil {
		dst = append(append(dst, '?'), h.Query...)
	}
	return dst
}

// AppendStatusLine appends a status line (RFC 9112 4). status is from 100 to 599; its registered
// reason phrase is ReasonPhrase(status).
func AppendStatusLine[T ~string | ~[]byte](dst []byte, status int, reason T) []byte {
	if status == 200 && string(reason) == "OK" {
		return append(dst, "HTTP/1.1 200 OK\r\n"...)
	}
	dst = append(dst, "HTTP/1.1 "...)
	dst = append(dst, byte('0'+status/100), byte('0'+status/10%10), byte('0'+status%10), ' ')
	dst = append(dst, reason...)
	return append(dst, "\r\n"...)
}

// AppendField appends a field line.
func AppendField[N, V ~string | ~[]byte](dst []byte, name N, value V) []byte {
	dst = append(dst, name...)
	dst = append(dst, ": "...)
	dst = append(dst, value...)
	return append(dst, "\r\n"...)
}

// AppendFieldInt appends a field line whose value is n in decimal.
func AppendFieldInt(dst []byte, name string, n int64) []byte {
	dst = append(dst, name...)
	dst = append(dst, ": "...)
	dst = strconv.AppendInt(dst, n, 10)
	return append(dst, "\r\n"...)
}

// AppendFieldLine appends a field line with name and value as received.
func AppendFieldLine(dst []byte, f *Field) []byte {
	if f.line != nil {
		return append(dst, f.line...)
	}
	return AppendField(dst, f.Name, f.Value)
}

// AppendHeadEnd appends the empty line that ends a head.
func AppendHeadEnd(dst []byte) []byte { return append(dst, "\r\n"...) }

// AppendChunk appends p as one chunk (RFC 9112 7.1), or nothing if p is empty, because an empty
// chunk would end the body.
func AppendChunk(dst, p []byte) []byte {
	if len(p) == 0 {
		return dst
	}
	dst = strconv.AppendInt(dst, int64(len(p)), 16)
	dst = append(dst, "\r\n"...)
	dst = append(dst, p...)
	return append(dst, "\r\n"...)
}

// AppendLastChunk appends the chunk that ends a body, and the trailer section, of which trailers are the
// field lines.
func AppendLastChunk(dst, trailers []byte) []byte {
	return append(append(append(dst, "0\r\n"...), trailers...), "\r\n"...)
}

// A LocalResponse is a small, complete response of the proxy itself.
type LocalResponse struct {
	// Status is the status code, from 100 to 599.
	Status int
	// ContentType is the Content-Type; empty means none.
	ContentType string
	// Body is the whole body. It is not sent with a status that forbids a body.
	Body []byte
	// Extra has further field lines, in the form of AppendField.
	Extra []byte
	// Close announces that the connection closes (RFC 9112 9.6).
	Close bool
	// Head omits the body but not its Content-Length, for the answer to HEAD.
	Head bool
}

// Bodiless reports whether the status forbids a body (RFC 9110 6.4.1).
func (a *LocalResponse) Bodiless() bool { return a.Status < 200 || a.Status == 204 || a.Status == 304 }

// AppendLocalResponse appends the response a. It adds a Content-Length unless the status forbids it (RFC 9110 8.6).
func AppendLocalResponse(dst []byte, a LocalResponse) []byte {
	bodyless := a.Bodiless()
	dst = AppendStatusLine(dst, a.Status, ReasonPhrase(a.Status))
	if a.ContentType != "" {
		dst = AppendField(dst, "Content-Type", a.ContentType)
	}
	if !bodyless {
		dst = AppendFieldInt(dst, "Content-Length", int64(len(a.Body)))
	}
	dst = append(dst, a.Extra...)
	if a.Close {
		dst = AppendField(dst, "Connection", "close")
	}
	dst = AppendHeadEnd(dst)
	if bodyless || a.Head {
		return dst
	}
	return append(dst, a.Body...)
}
