package serve

import (
	"strconv"
	"sync"

	"weir/internal/net/http1"
	"weir/internal/program/metric"
	"weir/target/session"
)

// histograms holds the histograms http_server_requests_seconds of all loops by their labels. One
// is created with the first exchange that it counts; there are few methods, places and statuses.
//
// Safe for concurrent use: a mutex guards the map; the histograms are atomic.
type histograms struct {
	set   *metric.Set
	loops int

	mu    sync.Mutex
	parts map[string][]*metric.Histogram // by name with labels, one per loop
}

func newHistograms(set *metric.Set, loops int) *histograms {
	return &histograms{set: set, loops: loops, parts: make(map[string][]*metric.Histogram)}
}

// part returns the histogram of a loop for exchanges like e.
func (b *histograms) part(loop int, e session.Exchange) *metric.Histogram {
	name := "http_server_requests_seconds" + metric.Labels(
		"method", methodLabel(e.Method), "uri", e.Endpoint.String(), "status", strconv.Itoa(e.Status))
	b.mu.Lock()
	defer b.mu.Unlock()
	parts := b.parts[name]
	if parts == nil {
		for range b.loops {
			parts = append(parts, metric.NewHistogram(metric.LatencyBuckets()))
		}
		b.parts[name] = parts
		b.set.Histogram(name, "Time from the first byte of a request to its answer.", parts...)
	}
	return parts[loop]
}

// methodLabel bounds the label method.
func methodLabel(m http1.Method) string {
	switch m {
	case http1.GET, http1.HEAD, http1.POST, http1.PUT, http1.DELETE, http1.PATCH, http1.OPTIONS:
		return m.String()
	}
	return "other"
}

// A meter counts the exchanges of one loop. It caches histograms, so that only the first exchange
// of a kind needs the lock.
//
// Owned by its loop.
type meter struct {
	histograms *histograms
	loop       int
	kinds      map[session.Exchange]*metric.Histogram // by an exchange without its time
	protocols  *[2]metric.Counter                     // exchanges of HTTP/1.1 and of HTTP/2
}

func newMeter(h *histograms, loop int) meter {
	return meter{histograms: h, loop: loop, kinds: make(map[session.Exchange]*metric.Histogram),
		protocols: new([2]metric.Counter)}
}

func (m *meter) count(exchanges []session.Exchange) {
	for _, e := range exchanges {
		protocol := &m.protocols[0]
		if e.HTTP2 {
			protocol = &m.protocols[1]
		}
		protocol.Inc()
		took := e.Took
		e.Took, e.HTTP2 = 0, false
		h := m.kinds[e]
		if h == nil {
			h = m.histograms.part(m.loop, e)
			m.kinds[e] = h
		}
		h.Observe(took)
	}
}
