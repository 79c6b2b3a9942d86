package port

import (
	"context"
	"testing"

	"weir/internal/test/testkit"
	"weir/proxy/store/simredis"
)

// Frames of HTTP/2, see RFC 9113 section 4.1.
const (
	preface  = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	settings = "\x00\x00\x00\x04\x00\x00\x00\x00\x00"
	// headers end the stream, but not the head: GET http://x/
	headers      = "\x00\x00\x06\x01\x01\x00\x00\x00\x01\x82\x86\x84\x41\x01x"
	continuation = "\x00\x00\x00\x09\x04\x00\x00\x00\x01" // without content
	strayData    = "\x00\x00\x00\x00\x00\x00\x00\x00\x00" // on stream 0
)

// Glitches are counted, and why connections are closed.
func TestHTTP2Counts(t *testing.T) {
	memory := testkit.Must(simredis.NewStore(simredis.Config{}))(t)
	t.Cleanup(memory.Close)
	p := startWith(t, Config{Limits: new(Limits), Store: memory})
	expect := func(name string, want float64) {
		t.Helper()
		testkit.Eventually(t, name, func() bool { return scrape(t, p)[name] == want })
	}
	const glitches = `ratelimiter_check_http2_glitches_total{kind="continuation"}`
	expect(glitches, 0)
	wrong, gone, drained := testkit.Dial(t, p.Addr().String()), testkit.Dial(t, p.Addr().String()),
		testkit.Dial(t, p.Addr().String())
	wrong.Send(preface + settings + headers + continuation)
	expect(glitches, 1)
	wrong.Send(strayData)
	expect(`ratelimiter_check_http2_closed_total{reason="protocol"}`, 1)
	for i, c := range []*testkit.Conn{gone, drained} {
		c.Send(preface + settings + headers + continuation)
		expect(glitches, float64(2+i))
	}
	gone.Reset()
	p.Drain(context.Background())
	expect(`ratelimiter_check_http2_closed_total{reason="goaway"}`, 1)
	counts, sum := scrape(t, p), 0.0
	for _, reason := range []string{"calm", "protocol", "compression", "flow", "frame_size", "timeout", "goaway"} {
		sum += counts[`ratelimiter_check_http2_closed_total{reason="`+reason+`"}`]
	}
	if sum != 2 {
		t.Errorf("%v closes are counted, want 2: not that of the asker", sum)
	}
}
