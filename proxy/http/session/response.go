package session

import (
	"weir/internal/net/http1"
	"weir/proxy/http/exchange"
)

// A coding is how the body of a response is sent.
type coding uint8

const (
	codingPlain  coding = iota // as it is, with its length announced
	codingChunks               // in chunks
	codingClose                // as it is, until the close
)

// appendResponses appends what the exchange passes on to the client.
func (s *Session) appendResponses(dst []byte, fx *exchange.Effects) []byte {
	for i := range fx.Interim {
		if s.minor > 0 { // RFC 9110 section 15.2
			dst = append(appendStatus(dst, &fx.Interim[i]), fx.Interim[i].Fields...)
			dst = http1.AppendHeadEnd(dst)
		}
	}
	if fx.Response != nil {
		dst = s.appendHead(dst, fx.Response)
	}
	if s.coding != codingChunks {
		return append(dst, fx.Body...)
	}
	dst = http1.AppendChunk(dst, fx.Body)
	if fx.Complete {
		dst = http1.AppendLastChunk(dst, fx.Trailers)
	}
	return dst
}

// frame determines how the body of a response is sent, and whether the connection closes after it (RFC
// 9112 sections 6 and 9.6).
func (s *Session) frame(r *exchange.Response) {
	s.coding = codingPlain
	if r.Framing == http1.BodyChunked || r.Framing == http1.BodyUntilClose {
		s.coding = codingChunks
		if s.minor == 0 {
			s.coding = codingClose
		}
	}
	s.last = s.last || s.drain || s.clientEnded || r.Unread || s.coding == codingClose
}

// appendHead appends the head of a response.
func (s *Session) appendHead(dst []byte, r *exchange.Response) []byte {
	s.frame(r)
	dst = appendStatus(dst, r)
	if r.ContentType != "" {
		dst = http1.AppendField(dst, "Content-Type", r.ContentType)
	}
	dst = append(dst, r.Fields...)
	if r.Upgrade != nil {
		dst = append(dst, "Connection: upgrade\r\n"...)
		return http1.AppendHeadEnd(http1.AppendField(dst, "Upgrade", r.Upgrade))
	}
	switch {
	case s.coding == codingChunks:
		dst = append(dst, "Transfer-Encoding: chunked\r\n"...)
	case s.coding == codingPlain && r.Length >= 0:
		dst = http1.AppendFieldInt(dst, "Content-Length", r.Length)
	}
	switch {
	case s.last:
		dst = append(dst, "Connection: close\r\n"...)
	case s.minor == 0:
		dst = append(dst, "Connection: keep-alive\r\n"...)
	}
	return http1.AppendHeadEnd(dst)
}

// appendStatus appends the status line of a response.
func appendStatus(dst []byte, r *exchange.Response) []byte {
	if len(r.Reason) == 0 { // HTTP/2 has none
		return http1.AppendStatusLine(dst, r.Status, http1.ReasonPhrase(r.Status))
	}
	return http1.AppendStatusLine(dst, r.Status, r.Reason)
}
