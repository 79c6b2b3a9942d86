package exchange

import "weir/internal/net/http1"

// What an exchange passes on are values, which its carriers write in the form of their protocol. A list
// of fields is one in the form of http1.AppendField, so that HTTP/1.1 copies it.

// A Request is a request for a target, for an own endpoint or to be stored. All of it is borrowed.
type Request struct {
	Method     http1.Method
	MethodText []byte
	Target     []byte // in origin-form or asterisk-form
	Host       []byte // empty: that of the target, or, if the request is not for a target, none
	Fields     []byte // without Host, and without those of the connection and the framing
	// Framing says how the end of the body is known to the target: BodyChunked by a transfer coding,
	// otherwise by Length. That is -1 if no length is to be announced.
	Framing http1.Framing
	Length  int64
	Upgrade string // the protocols to which the target may switch; empty: none
	Body    []byte // what has been received of it
}

// A Response is the head of a response for the client. All of it is borrowed.
type Response struct {
	Status int
	Reason []byte // nil: the registered one
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

// A message is the memory of a [Request].
type message struct {
	method               http1.Method
	head                 []byte // method, target, host and fields; nil: there is no message
	target, host, fields int    // where these begin
	framing              http1.Framing
	length               int64
	upgrade              string
	body                 []byte // nil: nothing has been received
}

// begin makes m the request of h, with memory for its fields, which the caller appends to m.head. The
// host is left out for a target that gets its own.
func (m *message) begin(b []byte, h *http1.Head, host []byte) {
	b = append(b, h.MethodText...)
	m.target = len(b)
	b = http1.AppendTarget(b, h)
	m.host = len(b)
	b = append(b, host...)
	m.head, m.fields = b, len(b)
	m.method, m.framing, m.length = h.Method, h.Framing, h.Length
}

// request returns the request, to be passed on.
func (m *message) request() Request {
	return Request{Method: m.method, MethodText: m.head[:m.target], Target: m.head[m.target:m.host],
		Host: m.head[m.host:m.fields], Fields: m.head[m.fields:], Framing: m.framing, Length: m.length,
		Upgrade: m.upgrade, Body: m.body}
}

// exists reports whether there is a message.
func (m *message) exists() bool { return m.head != nil }

// add adds a piece of the body.
func (m *message) add(e *Env, p []byte) {
	if m.body == nil {
		m.body = e.take()
	}
	m.body = append(m.body, p...)
}

// drop frees the memory of m.
func (m *message) drop(e *Env) {
	if m.head != nil {
		e.give(m.head)
		e.give(m.body)
		*m = message{}
	}
}

// bytes returns the size of the memory of m.
func (m *message) bytes() int { return cap(m.head) + cap(m.body) }

// pieces are bytes of a body that one call passes on. The first piece is borrowed from the caller; if
// more follow, all are copied.
type pieces struct {
	b    []byte
	copy []byte // memory of copies
	own  bool   // b is a part of it
}

// add adds a piece, which must not change until the effects were carried out.
func (p *pieces) add(b []byte) {
	switch {
	case len(p.b) == 0:
		p.b, p.own = b, false
		return
	case !p.own:
		p.copy, p.own = append(p.copy[:0], p.b...), true
	}
	p.copy = append(p.copy, b...)
	p.b = p.copy
}

// take returns the bytes, and leaves none.
func (p *pieces) take() (b []byte) {
	b, p.b = p.b, nil
	return b
}
