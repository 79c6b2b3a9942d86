package config

import (
	"fmt"
	"strings"
	"time"

	"weir/internal/net/http2"
	"weir/internal/program/service"
	"weir/proxy/http/mux"
)

// A stream of HTTP/2 that keeps more than this of a request or a response, because the other side makes no room,
// reads no more. Responses are read in pieces of up to 64 KiB, so one piece is enough.
const requestQueueMax, responseQueueMax = 64 << 10, 16 << 10

// streamWindow is how much of a request's body may be received and not passed on, the default of
// [http2.Limits].
//
// The window of a connection is as large as those of all its streams together. If it were smaller, the uploads
// that some targets do not read could take all of it, and those to other targets, or the reply that a stuck one
// waits for, would never come: a deadlock until a timeout. With 1 MiB, 16 of 128 streams would be enough.
// Bodies that are collected are credited as they arrive, so a connection holds up to BODY_BUFFER_BYTES for each
// stream; that is memory of its client, of which MEMORY_BUDGET ends the largest.
const streamWindow = 64 << 10

// http2Settings are the settings of HTTP/2.
type http2Settings struct {
	http2.Limits
	mode       string
	requests   int    // of one connection
	target     string // TARGET_PROTOCOL
	streamsMax int    // to a target
}

// registerHTTP2 adds the settings of HTTP/2.
func (c *Config) registerHTTP2(s *service.Settings) {
	h, off := &c.http2, s.NoEffectWhen("HTTP2", "off")
	unused := func() string {
		if h.mode == "tls" && s.Text("TLS_CERT") == "" {
			return "without TLS_CERT; HTTP2=all accepts HTTP/2 without TLS too"
		}
		return off()
	}
	s.Add(service.SettingList{
		{Name: "HTTP2", Default: "tls", Value: service.StringEnum(&h.mode, "off, tls, all"),
			Help: "HTTP/2 from clients: tls: over TLS, by ALPN; all: also without TLS, by prior knowledge"},
		{Name: "HTTP2_STREAMS_MAX", Default: "128", Value: service.Int(&h.Streams, 1, 1<<16), NoEffect: unused,
			Help: "maximum number of requests in progress on one connection; beyond: REFUSED_STREAM"},
		{Name: "HTTP2_REQUESTS_MAX", Default: "1000000", Value: service.Int(&h.requests, 0, 1<<29), NoEffect: unused,
			Help: "maximum number of requests on one connection of HTTP/2, instead of CONNECTION_MAX_REQUESTS; 0: no limit"},
		{Name: "HTTP2_GLITCHES_BURST", Default: "100", Value: service.Int(&h.GlitchBurst, 0, 1<<20), NoEffect: unused,
			Help: "how many glitches a connection may have at once: resets of requests in progress, control frames beyond need " +
				"and other things that are allowed once in a while; beyond: ENHANCE_YOUR_CALM, and the connection closes; " +
				"0: no limit"},
		{Name: "HTTP2_GLITCHES_RATE", Default: "33", Value: service.Float(&h.GlitchRate, 0, 1e6), NoEffect: unused,
			Help: "how many glitches a connection may have per second in the long run; 0: no limit"},
	})
}

// glitchRateMin is the lowest rate other than 0: the times that the bound of glitches computes with stay below 2^63 ns.
const glitchRateMin = 0.001

// completeHTTP2 checks the bounds of glitches together, and notes that there are none.
func (c *Config) completeHTTP2() error {
	h := &c.http2
	if h.mode != "off" && h.glitchesFree() {
		c.Notes = append(c.Notes, fmt.Sprintf("HTTP2_GLITCHES_BURST=%d, HTTP2_GLITCHES_RATE=%v: glitches are counted, and no "+
			"connection of HTTP/2 is closed for them", h.GlitchBurst, h.GlitchRate))
	}
	return c.settings.FaultIf(h.GlitchRate > 0 && h.GlitchRate < glitchRateMin, "HTTP2_GLITCHES_RATE", "is too low",
		fmt.Sprintf("0, or at least %v", glitchRateMin))
}

// glitchesFree reports whether the glitches of clients are only counted.
func (h *http2Settings) glitchesFree() bool { return h.GlitchBurst == 0 || h.GlitchRate == 0 }

// registerTargetProtocol adds the settings of HTTP/2 to targets.
func (c *Config) registerTargetProtocol(s *service.Settings) {
	h, noTarget := &c.http2, s.NoEffectWhen("TARGET_URL", noTargets)
	with := func(scheme string) bool { return strings.Contains(s.Text("TARGET_URL"), scheme) }
	noScheme := func() string {
		switch protocol := s.Text("TARGET_PROTOCOL"); {
		case protocol == "h2c" && !with("http://"):
			return "while no target has http://"
		case protocol == "h2" && !with("https://"):
			return "while no target has https://"
		}
		return noTarget()
	}
	noHTTP2 := func() string {
		if s.Text("TARGET_PROTOCOL") == "http1" && !with("h2c://") && !with("h2://") {
			return "while no target gets HTTP/2"
		}
		return noTarget()
	}
	s.Add(service.SettingList{
		{Name: "TARGET_PROTOCOL", Default: "http1", Value: service.StringEnum(&h.target, "http1, h2c, h2"),
			NoEffect: noScheme,
			Help: "protocol to targets: h2c: HTTP/2 without TLS for those with http://; h2: HTTP/2 for those with https://, " +
				"or HTTP/1.1 if ALPN does not select h2; h2c:// and h2:// in TARGET_URL select it for one target"},
		{Name: "TARGET_STREAMS_MAX", Default: "100", Value: service.Int(&h.streamsMax, 1, 1<<16), NoEffect: noHTTP2,
			Help: "maximum number of requests in progress on one HTTP/2 connection to a target, which may allow fewer; beyond: " +
				"a further connection"},
	})
}

// targetSilence is how long a target with requests in progress may send nothing on a connection of HTTP/2
// before it is sent a PING, and then until the connection is given up.
const targetSilence = 10 * time.Second

// TargetHTTP2 returns the settings of HTTP/2 to targets. Glitches of targets are only counted: they send a
// WINDOW_UPDATE as often as they like.
func (c *Config) TargetHTTP2() mux.UpstreamSettings {
	return mux.UpstreamSettings{StreamsMax: c.http2.streamsMax, SilenceTimeout: targetSilence,
		StallTimeout: c.loop.WriteStall, QueueMax: requestQueueMax,
		HTTP2: http2.Limits{Head: c.data.ResponseHead, GlitchBurst: -1, ConnWindow: c.http2.streamsMax * streamWindow}}
}

// HTTP2 returns the settings of HTTP/2 from clients.
func (c *Config) HTTP2() mux.Settings {
	h := mux.Settings{HTTP2: c.http2.Limits, HeadTimeout: c.data.HeadTimeout, IdleTimeout: c.data.IdleTimeout,
		StallTimeout: c.loop.WriteStall, DrainGrace: c.data.DrainGrace, QueueMax: responseQueueMax}
	h.HTTP2.Head, h.RequestsMax = c.data.Head, c.http2.requests
	h.HTTP2.ConnWindow = h.HTTP2.Streams * streamWindow
	if c.http2.glitchesFree() {
		h.HTTP2.GlitchBurst = -1
	}
	return h
}

// HTTP2Used reports whether clients may use HTTP/2 over TLS, and also without it.
func (c *Config) HTTP2Used() (overTLS, plain bool) {
	return c.http2.mode != "off", c.http2.mode == "all"
}
