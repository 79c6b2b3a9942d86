package http1

import "math"

// framed has everything on which the framing of a message depends.
type framed struct {
	response bool
	method   Method // of the request, or of the request that the response answers
	status   int    // of a response
	minor    int
	// The values of the last Content-Length and Transfer-Encoding field and
	// how many of each there are.
	length, coding   []byte
	lengths, codings int
}

// framing decides how the end of a body is known (RFC 9112 6.3), for both
// roles, or what makes it unknowable. It refuses whatever two recipients might
// understand differently, even where the RFC lets one of them repair it:
//
//	more than one Content-Length, equal or not      refused
//	Content-Length that is not 1*DIGIT or too large refused
//	Transfer-Encoding with Content-Length           refused
//	Transfer-Encoding before HTTP/1.1               refused
//	Transfer-Encoding other than exactly "chunked"  refused
//	1xx, 204, 304, answer to HEAD, 2xx to CONNECT   no body, whatever the fields say
//	Transfer-Encoding: chunked                      chunks
//	Content-Length                                  that many bytes
//	neither, request                                no body
//	neither, response                               until the connection ends
//
// length is as Head.Length says.
func (m *framed) framing() (kind Framing, length int64, f fault) {
	length = -1
	if m.lengths > 0 {
		if length, f = contentLength(m.length); f != noFault {
			return BodyNone, -1, f
		}
	}
	switch {
	case m.lengths > 1:
		return BodyNone, -1, faultLengthTwice
	case m.codings > 0 && m.lengths > 0:
		return BodyNone, -1, faultLengthAndCoding
	case m.codings > 0 && m.minor == 0:
		return BodyNone, -1, faultCodingVersion
	case m.codings > 1 || m.codings == 1 && !foldEqual(m.coding, "chunked"):
		return BodyNone, -1, codingFault(m.coding, m.codings)
	case m.response && (m.status < 200 || m.status == 204):
		return BodyNone, -1, noFault
	case m.response && (m.status == 304 || m.method == HEAD):
		return BodyNone, length, noFault
	case m.response && m.method == CONNECT && m.status < 300:
		return BodyNone, -1, noFault
	case m.codings > 0:
		return BodyChunked, -1, noFault
	case m.lengths > 0:
		return BodyLength, length, noFault
	case m.response:
		return BodyUntilClose, -1, noFault
	}
	return BodyNone, -1, noFault
}

// contentLength parses 1*DIGIT up to the largest int64 (RFC 9110 8.6). Leading zeros are allowed;
// a forwarder writes the number without them.
func contentLength(v []byte) (int64, fault) {
	if len(v) == 0 {
		return -1, faultLength
	}
	n := int64(0)
	for _, c := range v {
		if !isDigit(c) {
			return -1, faultLength
		}
		d := int64(c - '0')
		if n > (math.MaxInt64-d)/10 {
			return -1, faultLengthTooLarge
		}
		n = n*10 + d
	}
	return n, noFault
}

// codingFault returns the fault of a Transfer-Encoding other than "chunked". A recipient answers
// 501 to an unknown coding, and 400 if it cannot find the end of the message (RFC 9112 6.1, 6.3).
// Repeated fields are refused instead of joined.
func codingFault(coding []byte, codings int) fault {
	if codings > 1 || len(coding) == 0 {
		return faultCodingNotFinal
	}
	for rest := coding; rest != nil; {
		var element []byte
		element, rest = cutList(rest)
		if rest != nil && foldEqual(element, "chunked") {
			return faultCodingNotFinal
		}
	}
	return faultCoding
}
