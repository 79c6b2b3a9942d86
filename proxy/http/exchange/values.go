package exchange

import (
	"net/netip"

	"weir/internal/net/http1"
)

// What an exchange passes on are values, which its carriers write in the form of their protocol. A list
// of fields is one in the form of http1.AppendField, so that HTTP/1.1 copies it.

// A Request is a request for a target, for an own endpoint or to be stored. It is borrowed.
type Request struct {
	Method http1.Method
	// Framing says how the end of the body is known to the target: BodyChunked by a transfer coding,
	// otherwise by Length. That is -1 if no length is to be announced.
	Framing http1.Framing
	Length  int64
	Upgrade string // the protocols to which the target may switch; empty: none
	// TakesTrailers is to be told to the target by TE: the client has said so (RFC 9110 10.1.4).
	TakesTrailers bool
	Body          []byte // what has been received of it; nil: nothing
	// Head has the request line, the Host and the fields in the form of HTTP/1.1, so that such a carrier
	// copies it. It is without the fields of the connection and the framing.
	Head                       []byte
	target, line, host, fields int // where these begin in Head: target, lines after the first, value of Host, others
}

// MethodText returns the method, and Target the target, in origin-form or asterisk-form.
func (r *Request) MethodText() []byte { return r.Head[:r.target-1] }
func (r *Request) Target() []byte     { return r.Head[r.target : r.line-len(" HTTP/1.1\r\n")] }

// Host returns the host; nil: the target gets its own, which Head lacks at HostAt.
func (r *Request) Host() []byte {
	if r.fields == r.line {
		return nil
	}
	return r.Head[r.host : r.fields-len("\r\n")]
}
func (r *Request) HostAt() int { return r.line }

// Fields returns the other fields.
func (r *Request) Fields() []byte { return r.Head[r.fields:] }

// NewRequest returns a request that has only a request line and a Host, for tests.
func NewRequest(h *http1.Head) (r Request) {
	r.begin(nil, h, h.Host)
	return r
}

// begin makes r the request of h, with memory for its fields, which the caller appends to Head. For a
// target that gets its own host, the host is nil.
func (r *Request) begin(b []byte, h *http1.Head, host []byte) {
	b = http1.AppendRequestLine(b, h)
	r.target, r.line = len(h.MethodText)+1, len(b)
	if host != nil {
		b = http1.AppendField(b, "Host", host)
		r.host = len(b) - len(host) - len("\r\n")
	}
	r.Head, r.fields = b, len(b)
	r.Method, r.Framing, r.Length = h.Method, h.Framing, h.Length
}

// add adds a piece of the body.
func (r *Request) add(e *Env, p []byte) {
	if r.Body == nil {
		r.Body = e.take()
	}
	r.Body = append(r.Body, p...)
}

// drop frees the memory of r.
func (r *Request) drop(e *Env) {
	if r.Head != nil {
		e.give(r.Head)
		e.give(r.Body)
		*r = Request{}
	}
}

// bytes returns the size of the memory of r.
func (r *Request) bytes() int { return cap(r.Head) + cap(r.Body) }

// An OwnRequest is a whole request to an own endpoint.
type OwnRequest struct {
	*Request
	From netip.Addr // the client, behind trusted proxies not the peer of the connection
}

// A Response is the head of a response for the client. All of it is borrowed.
type Response struct {
	Status int
	Reason []byte // empty: the registered one
	// ContentType is that of a response of the proxy's own; empty: none, or it is among the Fields.
	ContentType string
	Fields      []byte // without those of the connection and the framing
	// Framing and Length are as in a Head: with BodyLength the body has Length bytes, with BodyNone
	// there is none, and Length is what it would have been, or -1.
	Framing http1.Framing
	Length  int64
	Upgrade []byte // with status 101: the protocols to which the connection switches
	// Unread: part of the request may be unread, so a connection of HTTP/1.1 closes after the response.
	Unread bool
}

// pieces is memory for bytes of a body that come in several pieces in one call.
type pieces struct {
	b    []byte
	used bool
}

// add adds a piece to all, which borrows the first one and copies them all if more follow. Pieces must
// not change until the effects were carried out.
func (p *pieces) add(all *[]byte, b []byte) {
	switch {
	case len(*all) == 0:
		*all, p.used = b, false
		return
	case !p.used:
		p.b, p.used = append(p.b[:0], *all...), true
	}
	p.b = append(p.b, b...)
	*all = p.b
}
