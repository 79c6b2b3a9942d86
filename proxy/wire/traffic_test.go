package wire

import (
	"net/http"
	"strings"
	"testing"

	"weir/proxy/traffic"
)

// A running proxy counts all of it.
func TestTraffic(t *testing.T) {
	r := start(t, newService(t, func(w http.ResponseWriter, q *http.Request) {
		if q.URL.Path == "/bad" {
			w.WriteHeader(503)
		}
	}), "RATE_LIMIT_LIMIT", "4")
	conn := r.dial()
	for i, path := range []string{"/a", "/bad", "/a", "/bad", "/a", "/a", "/metrics"} {
		conn.Ask("GET "+path+" HTTP/1.1\r\nHost: x\r\n\r\n", []int{200, 503, 200, 503, 429, 429, 200}[i])
	}
	got := r.Traffic()
	if got.Admitted != 4 || got.Denied != 2 || got.Ended != 4 || got.Failed != 2 || got.Times.Quantile(1) <= 0 {
		t.Errorf("counted %d admitted, %d denied, %d ended, %d failed, the longest %v", got.Admitted, got.Denied, got.Ended, got.Failed, got.Times.Quantile(1))
	}
}

// A target that answers before it has the whole request has taken no time that could
// be measured.
func TestTrafficOfUploads(t *testing.T) {
	r := start(t, newService(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) }))
	conn := r.dial()
	conn.Send("POST /u HTTP/1.1\r\nHost: x\r\nContent-Length: 10000000\r\n\r\n" + strings.Repeat("x", 300_000))
	conn.Status(503)
	if got := r.Traffic(); got.Admitted != 1 || got.Ended != 1 || got.Failed != 1 || got.Times != (traffic.Times{}) {
		t.Errorf("counted %d admitted, %d ended, %d failed, the longest %v", got.Admitted, got.Ended, got.Failed, got.Times.Quantile(1))
	}
}
