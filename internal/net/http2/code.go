package http2

import "errors"

// A Code is an error code (RFC 9113 7).
type Code uint32

// The error codes of RFC 9113 7. A peer may send others.
const (
	NoError Code = iota
	ProtocolError
	InternalError
	FlowControlError
	SettingsTimeout
	StreamClosed
	FrameSizeError
	RefusedStream
	Cancel
	CompressionError
	ConnectError
	EnhanceYourCalm
	InadequateSecurity
	HTTP11Required
)

var codeNames = [...]string{
	"NO_ERROR", "PROTOCOL_ERROR", "INTERNAL_ERROR", "FLOW_CONTROL_ERROR", "SETTINGS_TIMEOUT", "STREAM_CLOSED",
	"FRAME_SIZE_ERROR", "REFUSED_STREAM", "CANCEL", "COMPRESSION_ERROR", "CONNECT_ERROR", "ENHANCE_YOUR_CALM",
	"INADEQUATE_SECURITY", "HTTP_1_1_REQUIRED",
}

// String returns the name in RFC 9113, or "UNKNOWN".
func (c Code) String() string {
	if int64(c) < int64(len(codeNames)) {
		return codeNames[c]
	}
	return "UNKNOWN"
}

// An Error is a fault in what the peer has sent, of a connection or of a stream (RFC 9113 5.4). Errors are made once
// and shared: never change one.
type Error struct {
	// Code is the code that is sent to the peer.
	Code Code
	// Reason describes the fault in a few words, without bytes from the peer.
	Reason string
}

// Error returns the code and the reason.
func (e *Error) Error() string { return "http2: " + e.Code.String() + ": " + e.Reason }

// ErrSlow is the error of a connection on which a frame was not complete in time: its owner reads the clock.
var ErrSlow = errors.New("a frame was not complete in time")

// Faults that end the connection.
var (
	errPreface      = &Error{ProtocolError, "not the connection preface"}
	errNoSettings   = &Error{ProtocolError, "the first frame is not SETTINGS"}
	errFrameSize    = &Error{FrameSizeError, "a frame of a wrong size"}
	errStreamID     = &Error{ProtocolError, "a frame on a stream that it cannot be on"}
	errIdle         = &Error{ProtocolError, "a frame on an idle stream"}
	errClosed       = &Error{StreamClosed, "a frame on a closed stream"}
	errOldID        = &Error{ProtocolError, "a new stream with a lower identifier than another"}
	errPadding      = &Error{ProtocolError, "padding longer than its frame"}
	errSelf         = &Error{ProtocolError, "a stream that depends on itself"}
	errPush         = &Error{ProtocolError, "a push that was not allowed"}
	errContinuation = &Error{ProtocolError, "a field block that is interrupted, or a CONTINUATION without one"}
	errSetting      = &Error{ProtocolError, "the value of a setting is not valid"}
	errNoIncrement  = &Error{ProtocolError, "a WINDOW_UPDATE by 0"}
	errOverflow     = &Error{FlowControlError, "a window larger than 2^31-1"}
	errWindow       = &Error{FlowControlError, "more data than the window allows"}
	errCompression  = &Error{CompressionError, "a field block that cannot be decoded"}
	errNameEmpty    = &Error{ProtocolError, "a field without name"}
	errBlock        = &Error{EnhanceYourCalm, "a field block in too many or too large frames"}
	errBomb         = &Error{EnhanceYourCalm, "a head more than twice as large as allowed"}
	errControl      = &Error{EnhanceYourCalm, "frames are sent faster than the answers to them are read"}
)

// Faults that end a stream: of malformed messages (RFC 9113 8.1.1) and of bounds.
var (
	errField    = &Error{ProtocolError, "a field that is not valid"}
	errPseudo   = &Error{ProtocolError, "a pseudo-header field that is unknown, repeated, late or not valid"}
	errMissing  = &Error{ProtocolError, "a pseudo-header field is missing"}
	errHosts    = &Error{ProtocolError, ":authority and the Host field differ"}
	errLength   = &Error{ProtocolError, "the body has not the length that Content-Length says"}
	errTrailers = &Error{ProtocolError, "trailers do not end the stream"}
	errResponse = &Error{ProtocolError, "a response that is not valid"}
	errLarge    = &Error{EnhanceYourCalm, "trailers or the head of a response are too large"}
	errNoHead   = &Error{ProtocolError, "data before the head"}
	errTooMany  = &Error{RefusedStream, "more streams than allowed"}
)
