package session

import (
	"errors"
	"io"
	"time"

	"weir/internal/net/http1"
	"weir/proxy/http/exchange"
)

// An Upstream is HTTP/1.1 on an upstream connection: it writes the requests of exchanges, one after
// another, and reads their answers.
//
// Owned by its loop.
type Upstream struct {
	reader  http1.Reader
	head    *http1.Head
	chunked bool // the body of the current request is sent in chunks
}

// NewUpstream returns the state of a new connection. limits are those of heads of answers; head is memory
// for one, which all connections of a loop may share.
func NewUpstream(limits *http1.Limits, head *http1.Head) Upstream {
	return Upstream{reader: http1.NewResponseReader(limits), head: head}
}

// errHTTP2 is the error of an answer that begins like HTTP/2.
var errHTTP2 = errors.New("it looks like HTTP/2, which is used with h2c:// or TARGET_PROTOCOL")

// beginsHTTP2 reports whether b begins with the head of a SETTINGS frame, as a connection of HTTP/2 does.
func beginsHTTP2(b []byte) bool {
	const short, head = "\x00", "\x04\x00\x00\x00\x00\x00" // length below 64 KiB; type, flags, stream
	return len(b) >= 9 && string(b[:1]) == short && string(b[3:9]) == head
}

// Append appends what is to be sent on the connection. host is that of the target.
func (u *Upstream) Append(dst []byte, fx *exchange.Effects, host string) []byte {
	if r := fx.Forward; r != nil {
		u.reader.ResponseTo(r.Method)
		u.chunked = r.Framing == http1.BodyChunked
		dst = AppendRequest(dst, r, host)
		dst = u.appendBody(dst, r.Body)
	}
	if len(fx.Upload) > 0 {
		dst = u.appendBody(dst, fx.Upload)
	}
	if fx.Uploaded && u.chunked {
		dst = http1.AppendLastChunk(dst, fx.UploadTrailers)
	}
	return dst
}

// appendBody appends a piece of a body.
func (u *Upstream) appendBody(dst, p []byte) []byte {
	if u.chunked {
		return http1.AppendChunk(dst, p)
	}
	return append(dst, p...)
}

// AppendRequest appends the whole head of a request. host is that of the target, for requests without one.
func AppendRequest(dst []byte, r *exchange.Request, host string) []byte {
	dst = AppendRequestFields(dst, r, host)
	if r.Upgrade != "" {
		dst = append(dst, "Connection: upgrade\r\n"...)
		dst = http1.AppendField(dst, "Upgrade", r.Upgrade)
	}
	if r.TakesTrailers {
		dst = append(dst, "Connection: TE\r\nTE: trailers\r\n"...)
	}
	switch {
	case r.Framing == http1.BodyChunked:
		dst = append(dst, "Transfer-Encoding: chunked\r\n"...)
	case r.Length >= 0:
		dst = http1.AppendFieldInt(dst, "Content-Length", r.Length)
	}
	return http1.AppendHeadEnd(dst)
}

// AppendRequestFields appends the head of a request without the fields of the framing and the empty line.
func AppendRequestFields(dst []byte, r *exchange.Request, host string) []byte {
	if r.Host() != nil {
		return append(dst, r.Head...)
	}
	dst = append(dst, r.Head[:r.HostAt()]...)
	dst = http1.AppendField(dst, "Host", host)
	return append(dst, r.Fields()...)
}

// Handle passes bytes from the connection to its exchange, and returns how many it has consumed. If there
// are more bytes than the answer has, the connection is discarded. While the client accepts no data, a
// relayed answer is not consumed, and the owner passes the bytes again later.
func (u *Upstream) Handle(now time.Time, x *exchange.Exchange, b []byte) (n int) {
	if !x.HandleBytes() {
		return 0
	}
	for {
		ev, err := u.reader.Next(b[n:], u.head)
		if err != nil {
			if beginsHTTP2(b) {
				err = errHTTP2
			}
			x.HandleBadResponse(now, err)
			return n
		}
		n += int(ev.N)
		switch ev.Kind {
		case http1.NeedMore:
			x.HandlePause(now)
			return n
		case http1.HeadDone:
			x.HandleResponseHead(now, u.head)
		case http1.Data:
			x.HandleResponseBody(ev.Data)
		case http1.Upgraded:
			x.HandleSwitch(now, u.head)
			return n
		}
		if ev.Trailer {
			x.HandleResponseTrailers(ev.Data)
		}
		if ev.Kind == http1.End || u.reader.End() {
			x.HandleResponseEnd(now, n == len(b))
			return n
		}
	}
}

// HandleClosed tells the exchange of the connection that it has closed; err is the reason.
func (u *Upstream) HandleClosed(now time.Time, x *exchange.Exchange, err error) {
	complete := false
	if errors.Is(err, io.EOF) {
		ev, err := u.reader.EOF()
		complete = err == nil && ev.Kind == http1.End
	}
	x.HandleUpstreamClosed(now, complete)
}

// An AbandonedEnd says how an answer that nobody waits for has ended, and what to do with its connection.
type AbandonedEnd uint8

const (
	AbandonedNone  AbandonedEnd = iota // it has not ended
	AbandonedKeep                      // the connection can be used again
	AbandonedClose                     // it cannot
)

// HandleAbandoned handles bytes of an answer that nobody waits for, and returns how many it has consumed.
func (u *Upstream) HandleAbandoned(x *exchange.AbandonedExchange, b []byte) (n int, end AbandonedEnd) {
	for {
		ev, err := u.reader.Next(b[n:], u.head)
		if err != nil {
			return n, AbandonedClose
		}
		n += int(ev.N)
		switch {
		case ev.Kind == http1.HeadDone:
			x.HandleResponseHead(u.head)
		case ev.Kind == http1.NeedMore && !x.Long:
			return n, AbandonedNone
		case ev.Kind == http1.End && x.Reusable && n == len(b):
			return n, AbandonedKeep
		case ev.Kind != http1.Data:
			return n, AbandonedClose
		}
	}
}
