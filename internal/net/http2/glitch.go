package http2

import "time"

// A Glitch is a kind of what a client does that is allowed once in a while, and an attack if it is done all the time.
type Glitch uint8

const (
	// GlitchReset: the client reset a stream whose response was not complete (CVE-2023-44487).
	GlitchReset Glitch = iota
	// GlitchOwnReset: the client made us reset a stream, by a malformed message (CVE-2025-8671).
	GlitchOwnReset
	// GlitchControl: more frames that carry no message, or less of one than padding, than controlBurst and
	// controlEarned allow (CVE-2019-9512 and others).
	GlitchControl
	// GlitchContinuation: a CONTINUATION frame without content (CVE-2024-27316).
	GlitchContinuation
	// GlitchFields: a head or trailers beyond the limits (CVE-2016-6581).
	GlitchFields
	// GlitchRefused: a stream beyond Limits.Streams.
	GlitchRefused
	// GlitchWindow: the client made no room for a response in time (CVE-2019-9511, CVE-2019-9517). See NoteGlitch.
	GlitchWindow
	// GlitchSlowRequest: the client did not send the rest of a request in time. See NoteGlitch.
	GlitchSlowRequest

	// GlitchKinds is the number of kinds.
	GlitchKinds
)

var glitchNames = [GlitchKinds]string{"reset", "our_reset", "control", "continuation", "fields", "refused",
	"window", "idle"}

// String returns the kind in a word.
func (g Glitch) String() string { return glitchNames[g] }

// calmErrors are the errors of a connection with too many glitches, by the kind of the last one.
var calmErrors = tooMany()

func tooMany() (errs [GlitchKinds]Error) {
	for kind, name := range glitchNames {
		errs[kind] = Error{EnhanceYourCalm, "too many glitches: " + name}
	}
	return errs
}

const (
	// controlBurst and controlInterval allow frames that carry no message: 10, and 10 a second.
	controlBurst    = 10
	controlInterval = time.Second / 10
	// controlEarned is how many such frames each HEADERS or DATA frame that we send allows in addition: it may be
	// answered by a WINDOW_UPDATE for its stream, one for the connection, and a PING that measures the round trip, as
	// gRPC does. Each further refreshBytes of data allow two more, because clients update both windows when they have
	// read as little as that.
	controlEarned = 3
	refreshBytes  = 4 << 10
	// earnedMax bounds what is allowed in this way and has not been used: by 16 MiB that a client has not read.
	earnedMax = 8 << 10
)

// A bucket allows burst events at once, and one more after each interval. It keeps the time at which it will be full
// again, counted from the beginning of the connection.
type bucket time.Duration

// take reports whether an event at now is allowed.
func (b *bucket) take(now time.Duration, burst int, interval time.Duration) bool {
	full := max(time.Duration(*b), now) + interval
	if full-now > time.Duration(burst)*interval {
		return false
	}
	*b = bucket(full)
	return true
}

// Glitches returns how many glitches of each kind there were.
func (c *Conn) Glitches() (n [GlitchKinds]uint32) { return c.glitches }

// glitch counts a glitch, of a client only: a server sends what it does on streams that we have opened. The error
// ends the connection: there were too many.
func (c *Conn) glitch(kind Glitch) *Error {
	if c.role == Client && kind != GlitchControl {
		return nil
	}
	c.glitches[kind]++
	if c.limits.GlitchBurst < 0 || c.calm.take(c.now, c.limits.GlitchBurst, c.glitchInterval) {
		return nil
	}
	return &calmErrors[kind]
}

// NoteGlitch counts a glitch that only the owner of the connection sees, because it happens as time passes. An error is
// like one of Next.
func (c *Conn) NoteGlitch(now time.Time, kind Glitch) error {
	if c.err != nil {
		return c.err
	}
	c.now = now.Sub(c.start)
	if err := c.glitch(kind); err != nil {
		c.fail(err)
		return err
	}
	return nil
}

// control counts a frame that carries no message.
func (c *Conn) control() *Error {
	switch {
	case c.earned > 0:
		c.earned--
		return nil
	case c.controls.take(c.now, controlBurst, controlInterval):
		return nil
	}
	return c.glitch(GlitchControl)
}
