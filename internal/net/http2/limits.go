package http2

import (
	"cmp"

	"weir/internal/net/http1"
)

// Limits are the bounds of a Conn that programs may set. Zero fields mean the defaults.
type Limits struct {
	// Head bounds heads and trailers as in HTTP/1.1. While they are decoded, http1's Limits.Bounds apply to them in
	// the measure of RFC 9113 6.5.2: name, value and 32 bytes for each field; beyond: 431, and beyond twice the bytes
	// the connection ends. A field block may have as many bytes before it is decoded; beyond: the connection ends.
	Head http1.Limits
	// Streams bounds the streams that a client has open at the same time. Default 128; beyond: REFUSED_STREAM.
	Streams int
	// Window bounds the bytes of the body of one stream that were received and not consumed, and ConnWindow those of
	// all streams of a connection. Defaults 64 KiB and 1 MiB; at least 65535, which a peer may send before it has
	// read our settings (RFC 9113 6.9.2).
	Window, ConnWindow int
	// GlitchBurst and GlitchRate bound the glitches of a connection: how many there may be at once, and in the long
	// run per second. Defaults 100 and 33; beyond: ENHANCE_YOUR_CALM. With a negative GlitchBurst they are only
	// counted.
	GlitchBurst int
	GlitchRate  float64
}

// The other bounds of a Conn.
const (
	// windowInitial is the window of a peer that has not said otherwise, of the connection always.
	windowInitial = 65535
	// continuationsMax bounds the CONTINUATION frames of a field block; beyond: the connection ends.
	continuationsMax = 8
	// interimsMax bounds the 1xx responses before a final one; beyond: the stream ends.
	interimsMax = 16
	// controlBytesMax bounds the frames of AppendControl; beyond: the connection ends.
	controlBytesMax = 64 << 10
	// openMax is the last identifier with which streams are opened: the space of identifiers of a connection is
	// bounded (RFC 9113 5.1.1), and a connection is given up before it ends.
	openMax = 1 << 30
	// streamsUnknown bounds the streams that we open before the peer has said how many it allows.
	streamsUnknown = 100
	// pingsMax bounds the PINGs that are not answered; beyond: AppendPing appends none.
	pingsMax = 4
	// outKept and streamsKept are the largest buffer for AppendControl, and for how many streams, an idle connection
	// keeps memory.
	outKept     = 256
	streamsKept = 16
	// tableBytesMax is the largest table of the decoder: the initial SETTINGS_HEADER_TABLE_SIZE.
	tableBytesMax = 4096
)

// withDefaults returns l with defaults in place of zeros.
func (l *Limits) withDefaults() Limits {
	var r Limits
	if l != nil {
		r = *l
	}
	r.Streams = cmp.Or(r.Streams, 128)
	r.Window = min(max(cmp.Or(r.Window, 64<<10), windowInitial), windowMax)
	r.ConnWindow = min(max(cmp.Or(r.ConnWindow, 1<<20), windowInitial), windowMax)
	r.GlitchBurst = cmp.Or(r.GlitchBurst, 100)
	r.GlitchRate = cmp.Or(r.GlitchRate, 33)
	return r
}
