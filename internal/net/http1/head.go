package http1

import "math"

// A Head has the start line and the fields of one message, and their meaning for framing and
// connection. One Head may be used by all Readers of a loop. It is valid from HeadDone until it
// is used again, and while the bytes given to Next are unchanged: its slices are parts of them.
//
// Owned by its loop.
type Head struct {
	// Method, MethodText and Target come from a request line.
	Method     Method
	MethodText []byte
	Target     []byte
	// Path and Query are parts of the target as sent, neither decoded nor
	// normalised. Path begins with '/', is "*" in asterisk-form, empty in
	// authority-form and where an absolute-form has none. Query is what
	// follows '?', nil when there is no '?'.
	Path, Query []byte
	// Form is the form of the target.
	Form TargetForm
	// Host is the effective host with its port, as sent: the authority of an
	// absolute-form target wins over the Host field (RFC 9112 3.2.2). It is
	// empty only for a request older than HTTP/1.1.
	Host []byte

	// Status and Reason come from a status line. Status is 100 to 599.
	Status int
	Reason []byte

	// Minor is the minor version: the message is HTTP/1.Minor.
	Minor int
	// Fields are the field lines in the order sent. A caller may remove some.
	Fields []Field
	ids    uint64 // a bit for each ID that Fields may have; 0: they may have any

	// Framing says how the end of the body is known.
	Framing Framing
	// Length is the Content-Length, or -1 without one. Only with BodyLength it is the length of
	// the body: in a response without body because of HEAD or 304, it is what the length would
	// have been (RFC 9110 8.6). In responses that must not have the field (1xx, 204) it is -1.
	Length int64
	// KeepAlive reports whether another message may follow this one (RFC 9112 9.3). If not,
	// further bytes must not be read.
	KeepAlive bool
	// Expect is what the request expects. An HTTP/1.0 request expects nothing (RFC 9110 10.1.1).
	Expect Expect
	// Upgrade reports whether the message has an Upgrade field that the Connection field confirms
	// (RFC 9110 7.8), in HTTP/1.1.
	Upgrade bool
}

// Size returns the size of the body that follows a response's head. If it is not known, it is
// math.MaxInt64.
func (h *Head) Size() int64 {
	switch h.Framing {
	case BodyNone:
		return 0
	case BodyLength:
		return h.Length
	}
	return math.MaxInt64
}

// Field returns the value of the first field with that name, ignoring case.
func (h *Head) Field(name string) (value []byte, ok bool) {
	for i := range h.Fields {
		if f := &h.Fields[i]; EqualFold(f.Name, name) {
			return f.Value, true
		}
	}
	return nil, false
}

// MayHave reports whether there may be a field with that ID. It costs less than to look for one.
func (h *Head) MayHave(id FieldID) bool { return h.ids == 0 || h.ids>>(id&63)&1 != 0 }

// Value returns the value of the first field with that ID, which must not be
// FieldOther.
func (h *Head) Value(id FieldID) (value []byte, ok bool) {
	if !h.MayHave(id) {
		return nil, false
	}
	for i := range h.Fields {
		if h.Fields[i].ID == id {
			return h.Fields[i].Value, true
		}
	}
	return nil, false
}

// A Field is one field line.
type Field struct {
	// Name is a token as sent, Value has no whitespace around it.
	Name, Value []byte
	line        []byte // all of it, where that is what AppendFieldLine writes; else nil
	// ID identifies known names without comparing.
	ID FieldID
	// Hop says that a forwarder must not copy the field: it belongs to the connection (RFC 9110
	// 7.6.1), is named by a Connection field, or is written by the forwarder itself (framing,
	// Host).
	Hop bool
	// AmbiguousName says that the name has characters other than letters, digits and '-'. Such fields of
	// requests should be dropped: targets that replace '-' by '_' mistake X_Real_IP for the
	// X-Real-IP that the proxy sets.
	AmbiguousName bool
}

// A TargetForm is one of the four forms of a request target (RFC 9112 3.2).
type TargetForm uint8

const (
	FormOrigin    TargetForm = iota // /path?query
	FormAbsolute                    // http://host/path?query
	FormAsterisk                    // *, with OPTIONS only
	FormAuthority                   // host:port, with CONNECT only
)

// A Framing is how the end of a body is known (RFC 9112 6.3).
type Framing uint8

const (
	BodyNone       Framing = iota // nothing follows the head
	BodyLength                    // Head.Length bytes follow
	BodyChunked                   // chunks follow
	BodyUntilClose                // the connection's end is the body's end
)

// An Expect is what a request expects before it sends its body (RFC 9110 10.1.1).
type Expect uint8

const (
	ExpectNone     Expect = iota // nothing
	ExpectContinue               // 100-continue, and nothing else
	ExpectOther                  // something unknown: 417
)
