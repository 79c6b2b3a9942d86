package wire

import (
	"strings"
	"testing"
)

// Names with underscores are forwarded when they are wanted, but for those that a
// target could take for a field of the connection or for an untrusted claim. What
// is dropped is counted.
func TestUnderscoredFields(t *testing.T) {
	for _, test := range []struct {
		word, forwarded string
		dropped         int
	}{
		{"drop", "Accept", 5},
		{"keep", "X_Plan Accept", 3},
	} {
		var names []string
		r := start(t, newTarget(t, func(c *targetConn) {
			s := c.next()
			for _, f := range s.head.Fields {
				names = append(names, string(f.Name))
			}
			c.echo(s)
		}).url(), "UNDERSCORED_FIELDS", test.word, "VIA_NAME", "off")
		r.dial().Ask("GET / HTTP/1.1\r\nHost: x\r\nX_Plan: 1\r\nX.Plan: 1\r\nTransfer_Encoding: chunked\r\nContent_Length: 5\r\n"+
			"Connection: X_Hop\r\nX_Hop: 1\r\nX_Forwarded_For: 6.6.6.6\r\nAccept: a\r\n\r\n", 200)
		const ours = " X-Forwarded-For X-Forwarded-Proto X-Forwarded-Host CDN-Loop"
		if got := strings.Join(names, " "); got != "Host "+test.forwarded+ours {
			t.Errorf("%s: the target sees %s", test.word, got)
		}
		r.samplesAre(`ratelimiter_dropped_fields_total{reason="name"}`, test.dropped, `ratelimiter_dropped_fields_total{reason="untrusted"}`, 1)
	}
}

// Trailers stay behind, both ways, and are counted.
func TestTrailersAreCounted(t *testing.T) {
	r := start(t, newTarget(t, func(c *targetConn) {
		for s := c.next(); s != nil; s = c.next() {
			trailer := ""
			if s.target() == "/trailer" {
				trailer = "A: b\r\n"
			}
			c.say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n" + trailer + "\r\n")
		}
	}).url())
	conn := r.dial()
	const chunked = " HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n"
	for i, sent := range []string{"POST /" + chunked, "POST /" + chunked + "A: b\r\n", "POST /trailer" + chunked, "POST /trailer" + chunked + "A: b\r\nC: d\r\n"} {
		conn.Send(sent + "\r\n")
		res, body := conn.Status(200)
		if len(res.Trailer) > 0 || body != "ok" {
			t.Errorf("answered %q with %v", body, res.Trailer)
		}
		r.samplesAre("ratelimiter_dropped_trailers_total", []int{0, 1, 2, 4}[i])
	}
}
