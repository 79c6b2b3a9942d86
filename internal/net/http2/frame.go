package http2

import "encoding/binary"

// Frame types (RFC 9113 6).
const (
	frameData         = 0x0
	frameHeaders      = 0x1
	framePriority     = 0x2
	frameReset        = 0x3
	frameSettings     = 0x4
	framePushPromise  = 0x5
	framePing         = 0x6
	frameGoAway       = 0x7
	frameWindowUpdate = 0x8
	frameContinuation = 0x9
)

// Flags.
const (
	flagAck        = 0x1 // SETTINGS, PING
	flagEndStream  = 0x1 // DATA, HEADERS
	flagEndHeaders = 0x4
	flagPadded     = 0x8
	flagPriority   = 0x20
)

const (
	// frameHeadLen is the length of what precedes the payload of a frame (RFC 9113 4.1).
	frameHeadLen = 9
	// frameBytesMax is the largest payload that we allow, and the largest that we send: the initial value of
	// SETTINGS_MAX_FRAME_SIZE, which is also its smallest (RFC 9113 6.5.2).
	frameBytesMax = 16 << 10
	// idMax is the largest stream identifier, and windowMax the largest window.
	idMax     = 1<<31 - 1
	windowMax = 1<<31 - 1
)

// preface is what a client sends before its first frame (RFC 9113 3.4).
const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

// A frame is what precedes the payload of a frame.
type frame struct {
	length int
	kind   uint8
	flags  uint8
	id     uint32
}

func (f frame) has(flag uint8) bool { return f.flags&flag != 0 }

// end returns the length of the whole frame.
func (f frame) end() int { return frameHeadLen + f.length }

// parseFrame reads what precedes a payload. ok is false if it is not complete.
func parseFrame(b []byte) (f frame, ok bool) {
	if len(b) < frameHeadLen {
		return frame{}, false
	}
	return frame{
		length: int(b[0])<<16 | int(b[1])<<8 | int(b[2]),
		kind:   b[3],
		flags:  b[4],
		id:     binary.BigEndian.Uint32(b[5:]) & idMax, // the highest bit is reserved
	}, true
}

// check checks the size of a frame, and whether it is on stream 0 or on another as its type demands. A wrong size
// ends the connection even where RFC 9113 4.2 allows to end the stream only: no implementation that works sends it.
func (f frame) check() *Error {
	size, stream := f.length <= frameBytesMax, f.id != 0
	switch f.kind {
	case frameData, frameHeaders:
		size = size && (f.length > 0 || !f.has(flagPadded))
	case framePriority:
		size = f.length == 5
	case frameReset:
		size = f.length == 4
	case frameSettings:
		size, stream = size && f.length%6 == 0 && (f.length == 0 || !f.has(flagAck)), !stream
	case framePing:
		size, stream = f.length == 8, !stream
	case frameGoAway:
		size, stream = size && f.length >= 8, !stream
	case frameWindowUpdate:
		size, stream = f.length == 4, true
	}
	switch {
	case !size:
		return errFrameSize
	case !stream && f.kind <= frameContinuation:
		return errStreamID
	}
	return nil
}

// appendFrame appends what precedes a payload.
func appendFrame(dst []byte, f frame) []byte {
	return append(dst, byte(f.length>>16), byte(f.length>>8), byte(f.length), f.kind, f.flags,
		byte(f.id>>24), byte(f.id>>16), byte(f.id>>8), byte(f.id))
}

// appendWord appends a frame whose payload is a number: RST_STREAM or WINDOW_UPDATE.
func appendWord(dst []byte, kind uint8, id, n uint32) []byte {
	return binary.BigEndian.AppendUint32(appendFrame(dst, frame{length: 4, kind: kind, id: id}), n)
}

// appendGoAway appends a GOAWAY with the reason as debug data.
func appendGoAway(dst []byte, last uint32, code Code, reason string) []byte {
	dst = appendFrame(dst, frame{length: 8 + len(reason), kind: frameGoAway})
	dst = binary.BigEndian.AppendUint32(dst, last)
	dst = binary.BigEndian.AppendUint32(dst, uint32(code))
	return append(dst, reason...)
}
