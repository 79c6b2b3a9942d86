package report

import (
	"weir/internal/net/http2"
	"weir/internal/program/metric"
)

// HTTP2Counts count what clients do wrong on connections of HTTP/2, and why these were closed.
//
// Safe for concurrent use: atomic words.
type HTTP2Counts struct {
	Glitches [http2.GlitchKinds]metric.Counter
	Closed   [CloseReasons]metric.Counter
}

// A CloseReason says why the proxy closed a connection of HTTP/2.
type CloseReason uint8

const (
	CloseEnhanceYourCalm CloseReason = iota
	CloseProtocol
	CloseCompression
	CloseFlowControl
	CloseFrameSize
	CloseTimeout
	CloseStalled // the client read nothing
	CloseGoAway  // without an error, after GOAWAY
	CloseReasons
)

// String returns the value of the label reason.
func (r CloseReason) String() string {
	return [...]string{"calm", "protocol", "compression", "flow", "frame_size", "timeout", "stall", "goaway"}[r]
}

// closeReasonOf returns the reason of a connection that err has ended, or without one GOAWAY.
func closeReasonOf(err error) CloseReason {
	if err == nil {
		return CloseGoAway
	}
	fault, ok := err.(*http2.Error)
	if !ok {
		return CloseTimeout
	}
	switch fault.Code {
	case http2.EnhanceYourCalm:
		return CloseEnhanceYourCalm
	case http2.CompressionError:
		return CloseCompression
	case http2.FlowControlError:
		return CloseFlowControl
	case http2.FrameSizeError:
		return CloseFrameSize
	}
	return CloseProtocol
}

// An HTTP2ConnCounts counts the events of one connection.
//
// Owned by its loop.
type HTTP2ConnCounts struct {
	Counts   *HTTP2Counts
	glitches [http2.GlitchKinds]uint32 // that are counted
	closed   bool                      // is counted
}

// CountGlitches counts the new ones of all glitches of the connection.
func (c *HTTP2ConnCounts) CountGlitches(all [http2.GlitchKinds]uint32) {
	if all == c.glitches {
		return
	}
	for kind, n := range all {
		c.Counts.Glitches[kind].Add(uint64(n - c.glitches[kind]))
	}
	c.glitches = all
}

// CountClosed counts that the proxy closes the connection, once, unless the client has ended it: without an error,
// and without announced, a GOAWAY. It reports whether the reason is abuse, which is now counted.
func (c *HTTP2ConnCounts) CountClosed(err error, announced bool) (abuse bool) {
	if c.closed || err == nil && !announced {
		return false
	}
	reason := closeReasonOf(err)
	c.CountAs(reason)
	return reason == CloseEnhanceYourCalm
}

// CountAs counts that the proxy closes the connection for that reason, once.
func (c *HTTP2ConnCounts) CountAs(reason CloseReason) {
	if !c.closed {
		c.closed = true
		c.Counts.Closed[reason].Inc()
	}
}

// RegisterHTTP2 adds the sums of counts to set, under names with that prefix. clients is what the help calls them.
func RegisterHTTP2(set *metric.Set, prefix, clients string, counts ...*HTTP2Counts) {
	sum := func(of func(c *HTTP2Counts) *metric.Counter) func() uint64 {
		return func() (n uint64) {
			for _, c := range counts {
				n += of(c).Load()
			}
			return n
		}
	}
	for kind := range http2.GlitchKinds {
		set.Counter(prefix+"http2_glitches_total"+metric.Labels("kind", kind.String()),
			"what "+clients+" did that is allowed only once in a while",
			sum(func(c *HTTP2Counts) *metric.Counter { return &c.Glitches[kind] }))
	}
	for reason := range CloseReasons {
		set.Counter(prefix+"http2_closed_total"+metric.Labels("reason", reason.String()),
			"connections of HTTP/2 of "+clients+" that the proxy has closed",
			sum(func(c *HTTP2Counts) *metric.Counter { return &c.Closed[reason] }))
	}
}
