package http1

import "math"

// A state is what a Reader expects next.
type state uint8

const (
	stateHead       state = iota // a head, or more of it
	stateLength                  // left bytes of body
	stateUntilClose              // body until the connection ends
	stateChunkLine               // a chunk-size line
	stateChunkData               // left bytes of chunk data
	stateChunkEnd                // the CRLF after chunk data
	stateTrailer                 // a trailer section, or more of it
	stateEnd                     // nothing: the message is complete, and End must still be returned
	stateUpgraded                // another protocol
	stateFailed                  // nothing: no more input is read
)

// A Reader reads the messages of one direction of a connection, requests or
// responses. It keeps numbers only, no reference to bytes. The zero Reader is not
// usable.
//
// Owned by its loop.
type Reader struct {
	// left is the number of remaining bytes of the body or of the chunk.
	left int64
	// In a head or trailer section, lineAt is where the first incomplete line begins. seen is how
	// many bytes of it, or of a chunk line, have been checked, so that slow input costs no more
	// than fast input.
	lineAt, seen int32
	// wasted is the waste of chunk framing so far.
	wasted       int32
	headBytesMax int32 // see Limits.Bounds, like fieldsMax
	fieldsMax    uint16
	// fields, emptyLines and interims are the counts for this message.
	fields, emptyLines, interims uint16
	state                        state
	response                     bool
	// method is that of the request which the next response answers.
	method Method
	fault  fault
}

// NewRequestReader returns a Reader of requests with the limits of l; nil means the defaults.
func NewRequestReader(l *Limits) (r Reader) {
	r.headBytesMax, r.fieldsMax = l.Bounds()
	return r
}

// NewResponseReader returns a Reader of responses with the limits of l; nil means the defaults.
func NewResponseReader(l *Limits) Reader {
	r := NewRequestReader(l)
	r.response = true
	return r
}

// ResponseTo prepares the Reader for the response to a request with that method, whatever it has
// read before. By default the method is that of the previous request, and at first one whose
// response may have a body.
func (r *Reader) ResponseTo(method Method) {
	r.begin()
	r.method = method
}

// Idle reports whether the Reader is between messages and has seen nothing of the next one except
// empty lines. It is false between an interim response and the final one.
func (r *Reader) Idle() bool { return r.state == stateHead && r.seen == 0 && r.interims == 0 }

// InBody reports whether a head has been read and the end of its body has not.
func (r *Reader) InBody() bool { return r.state > stateHead && r.state < stateEnd }

// Next reads b, which begins with the first byte not yet read. h is written while a head is read,
// and valid only with HeadDone; in a body it is not used and may be nil.
//
// An error is an *Error. It is final: each later call returns it again.
func (r *Reader) Next(b []byte, h *Head) (Event, error) {
	if r.End() {
		return Event{Kind: End}, nil
	}
	b = b[:min(len(b), math.MaxInt32)] // what Event.N can count
	switch r.state {
	case stateHead:
		return r.head(b, h)
	case stateLength, stateUntilClose:
		return r.plain(b), nil
	case stateUpgraded:
		return Event{Kind: Upgraded}, nil
	case stateFailed:
		return r.fail(r.fault)
	}
	return r.chunked(b)
}

// End reports whether Next would return End, without a trailer section and whatever the bytes, and takes it:
// the next bytes are those of another message. It costs less than Next.
func (r *Reader) End() bool {
	if r.state != stateEnd {
		return false
	}
	r.begin()
	return true
}

// EOF handles the end of the peer's bytes, after all of them have been given to Next. It returns
// End if that ends the body, NeedMore between messages, Upgraded after a switch of protocols, and
// an error if a message is cut off.
func (r *Reader) EOF() (Event, error) {
	switch {
	case r.state == stateUntilClose || r.state == stateEnd:
		r.begin()
		return Event{Kind: End}, nil
	case r.state == stateUpgraded:
		return Event{Kind: Upgraded}, nil
	case r.state == stateFailed:
		return r.fail(r.fault)
	case r.Idle():
		return Event{}, nil
	}
	return r.fail(faultTruncated)
}

// plain continues to read a body without transfer coding.
func (r *Reader) plain(b []byte) Event {
	if len(b) == 0 {
		return Event{}
	}
	n := len(b)
	if r.state == stateLength {
		n = int(min(int64(n), r.left))
		if r.left -= int64(n); r.left == 0 {
			r.state = stateEnd
		}
	}
	return Event{Kind: Data, Data: b[:n:n], N: int32(n)}
}

// begin prepares the Reader for the next message.
func (r *Reader) begin() {
	r.state = stateHead
	r.wasted = 0
	r.interims = 0
	r.beginHead()
}

func (r *Reader) beginHead() {
	r.lineAt, r.seen = 0, 0
	r.fields, r.emptyLines = 0, 0
}

// fail makes the fault final.
func (r *Reader) fail(f fault) (Event, error) {
	r.state, r.fault = stateFailed, f
	return Event{}, r.errorOf(f)
}

func (r *Reader) errorOf(f fault) error {
	if r.response {
		return &responseErrors[f]
	}
	return &requestErrors[f]
}
