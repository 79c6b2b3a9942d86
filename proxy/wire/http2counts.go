package wire

import (
	"cmp"
	"log/slog"
	"net/netip"
	"sync/atomic"
	"time"

	"weir/internal/program/metric"
	"weir/internal/timing/every"
	"weir/proxy/wire/report"
)

// http2Counts are numbers of one loop.
//
// Safe for concurrent use: its loop writes, anybody may read.
type http2Counts struct {
	report.HTTP2Counts
	connections, streams atomic.Int64
	refused              metric.Counter        // connections that begin with the preface, which is not accepted
	abuse                atomic.Pointer[abuse] // the last one, or nil
}

// An abuse is why a connection was closed, and whose it was.
type abuse struct {
	why    error
	client netip.Addr
}

// countClosed counts that the proxy closes the connection, once.
func (h *http2Conn) countClosed() {
	if err := h.m.Err(); h.counted.CountClosed(err, h.m.Announced()) {
		h.server.http2.abuse.Store(&abuse{err, h.conn.Remote().Addr()})
	}
}

// sum adds one count over all loops.
func (ls loops) sum(of func(s *loopServer) *metric.Counter) (n uint64) {
	for _, s := range ls {
		n += of(s).Load()
	}
	return n
}

// registerHTTP2 adds the metrics of HTTP/2.
func (f *Server) registerHTTP2(set *metric.Set) {
	gauge := func(name, help string, of func(c *http2Counts) *atomic.Int64) {
		set.Gauge(name, help, func() float64 {
			n := int64(0)
			for _, s := range f.loops {
				n += of(&s.http2).Load()
			}
			return float64(n)
		})
	}
	counter := func(name, help string, of func(s *loopServer) *metric.Counter) {
		set.Counter(name, help, func() uint64 { return f.loops.sum(of) })
	}
	for p := range protocols {
		counter("ratelimiter_requests_by_protocol_total"+metric.Labels("protocol", p.String()),
			"finished requests of clients by protocol", func(s *loopServer) *metric.Counter { return &s.protocols[p] })
	}
	var counts []*report.HTTP2Counts
	for _, s := range f.loops {
		counts = append(counts, &s.http2.HTTP2Counts)
	}
	report.RegisterHTTP2(set, "ratelimiter_", "clients", counts...)
	counter("ratelimiter_http2_refused_total", "connections of HTTP/2 without TLS, which HTTP2=all would accept",
		func(s *loopServer) *metric.Counter { return &s.http2.refused })
	gauge("ratelimiter_http2_connections", "open connections of clients that use HTTP/2",
		func(c *http2Counts) *atomic.Int64 { return &c.connections })
	gauge("ratelimiter_http2_streams", "HTTP/2 requests in progress",
		func(c *http2Counts) *atomic.Int64 { return &c.streams })
}

// complaintsHTTP2 log what clients of HTTP/2 do wrong, or may not do.
//
// Owned by the goroutine of housekeeping.
type complaintsHTTP2 struct {
	refusals, abuses every.LogThrottle
	refused, abused  uint64 // those that are logged
}

// look logs what has happened since the last call.
func (c *complaintsHTTP2) look(now time.Time, ls loops, log *slog.Logger) {
	if n := ls.sum(func(s *loopServer) *metric.Counter { return &s.http2.refused }); n > c.refused {
		if _, ok := c.refusals.Allow(now, complainEvery); ok {
			log.Warn("Clients that begin with HTTP/2 without TLS get 505: HTTP2=all accepts that", "count", n-c.refused)
			c.refused = n
		}
	}
	closed := func(s *loopServer) *metric.Counter { return &s.http2.Closed[report.CloseEnhanceYourCalm] }
	if n := ls.sum(closed); n > c.abused {
		if _, ok := c.abuses.Allow(now, complainEvery); ok {
			var last *abuse
			for _, s := range ls {
				last = cmp.Or(s.http2.abuse.Load(), last)
			}
			log.Warn("Connections of HTTP/2 closed for abuse", "count", n-c.abused, "reason", last.why, "client", last.client)
			c.abused = n
		}
	}
}
