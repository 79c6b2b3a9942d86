package wire

import (
	"strings"
	"testing"

	xnet "golang.org/x/net/http2"
)

// A head that is too large for the target is refused also if the rest of the request has arrived meanwhile.
func TestTargetHeadTooLargeOfUpload(t *testing.T) {
	t.Parallel()
	greets := make(chan struct{})
	s := newLateTarget(t, greets, xnet.Setting{ID: xnet.SettingMaxHeaderListSize, Val: 2000})
	r := startWith(t, func(c *Config) { one(c); c.HTTP2.PriorKnowledge = true }, s.url(), "HTTP2", "all")
	c := r.rawHTTP2(65535)
	id := c.request("POST", "/", false, "x", strings.Repeat("x", 3000))
	r.until("the request waits for the target", func() bool {
		return r.samples()[`ratelimiter_upstream_connections{state="connecting"}`] == 1
	})
	c.must(c.framer.WriteData(id, true, []byte("body")))
	c.must(c.framer.WritePing(false, [8]byte{}))
	for {
		f, err := c.framer.ReadFrame()
		c.must(err)
		if f, ok := f.(*xnet.PingFrame); ok && f.IsAck() {
			break
		}
	}
	close(greets)
	if status, _ := c.response(id); status != "431" {
		t.Errorf("status %s", status)
	}
	r.until("none is in flight", func() bool { return r.samples()["ratelimiter_upstream_in_flight"] == 0 })
}
