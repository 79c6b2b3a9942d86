package http1_test

import (
	"math"
	"strings"
	"testing"

	"weir/internal/net/http1"
	"weir/internal/net/http1/http1test"
)

// TestLimits has, for each limit, a message that is just within it and one
// that is one beyond.
func TestLimits(t *testing.T) {
	const (
		host    = "Host: a\r\n"
		chunked = "POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n"
	)
	x := strings.Repeat
	for _, c := range []struct {
		name           string
		limits         http1.Limits
		response       bool
		within, beyond string
		status         int
		reason         string
	}{
		{"HeadBytes", http1.Limits{HeadBytes: 64}, false,
			"GET /" + x("a", 37) + " HTTP/1.1\r\n" + host[:7] + "\r\n\r\n",
			"GET /" + x("a", 38) + " HTTP/1.1\r\n" + host[:7] + "\r\n\r\n",
			431, "the head is too large"},
		{"HeadBytes by a field", http1.Limits{HeadBytes: 64}, false,
			"GET / HTTP/1.1\r\n" + host + "A: " + x("a", 32) + "\r\n\r\n",
			"GET / HTTP/1.1\r\n" + host + "A: " + x("a", 33) + "\r\n\r\n",
			431, "the head is too large"},
		{"HeadBytes by a request line", http1.Limits{HeadBytes: 64}, false,
			"GET /" + x("a", 37) + " HTTP/1.1\r\n" + host[:7] + "\r\n\r\n",
			"GET /" + x("a", 49) + " HTTP/1.1\r\n" + host + "\r\n",
			414, "the request line is too long"},
		{"HeadBytes by a status line", http1.Limits{HeadBytes: 64}, true,
			"HTTP/1.1 204 " + x("a", 47) + "\r\n\r\n",
			"HTTP/1.1 204 " + x("a", 50) + "\r\n\r\n",
			502, "the head is too large"},
		{"a line takes all of a larger HeadBytes", http1.Limits{HeadBytes: 32 << 10}, false,
			"GET / HTTP/1.1\r\n" + host + "A: " + x("a", 32<<10-32) + "\r\n\r\n",
			"GET / HTTP/1.1\r\n" + host + "A: " + x("a", 32<<10-31) + "\r\n\r\n",
			431, "the head is too large"},
		// What proxies on the way add does not count, but what comes with it does.
		{"HeadBytes and what is added", http1.Limits{HeadBytes: 64}, false,
			"GET / HTTP/1.1\r\n" + host + "Via: 1.1 a\r\nX-Forwarded-For: 192.0.2.1\r\nA: " + x("a", 32) + "\r\n\r\n",
			"GET / HTTP/1.1\r\n" + host + "Via: 1.1 a\r\nX-Forwarded-For: 192.0.2.1\r\nA: " + x("a", 33) + "\r\n\r\n",
			431, "the head is too large"},
		{"HeadBytes by a request line and what is added", http1.Limits{HeadBytes: 64}, false,
			"GET /" + x("a", 35) + " HTTP/1.1\r\n" + host + "Via: 1.1 a\r\n\r\n",
			"GET /" + x("a", 49) + " HTTP/1.1\r\n" + host + "Via: 1.1 a\r\n\r\n",
			414, "the request line is too long"},
		{"HeadBytes of a response and what is added", http1.Limits{HeadBytes: 64}, true,
			"HTTP/1.1 204 x\r\nVia: 1.1 a\r\nDate: x\r\nRateLimit: x\r\nX-RateLimit-Limit: 1\r\nA: " + x("a", 41) + "\r\n\r\n",
			"HTTP/1.1 204 x\r\nVia: 1.1 a\r\nDate: x\r\nRateLimit: x\r\nX-RateLimit-Limit: 1\r\nA: " + x("a", 42) + "\r\n\r\n",
			502, "the head is too large"},
		{"HeadBytes and more added than any proxy does", http1.Limits{HeadBytes: 1 << 10}, false,
			"GET / HTTP/1.1\r\n" + host + x("Via: "+x("a", 1017)+"\r\n", 4) + "A: " + x("a", 1<<10-32) + "\r\n\r\n",
			"GET / HTTP/1.1\r\n" + host + x("Via: "+x("a", 1017)+"\r\n", 4) + "A: " + x("a", 1<<10-31) + "\r\n\r\n",
			431, "the head is too large"},
		{"Fields", http1.Limits{Fields: 3}, false,
			"GET / HTTP/1.1\r\n" + host + x("A: b\r\n", 2) + "\r\n",
			"GET / HTTP/1.1\r\n" + host + x("A: b\r\n", 3) + "\r\n",
			431, "too many fields"},
		{"Fields and what is added", http1.Limits{Fields: 3}, false,
			"GET / HTTP/1.1\r\n" + host + x("A: b\r\nVia: 1.1 a\r\n", 2) + x("X-Forwarded-For: b\r\nCDN-Loop: a\r\n", 7) +
				"\r\n",
			"GET / HTTP/1.1\r\n" + host + x("A: b\r\nVia: 1.1 a\r\n", 3) + "\r\n",
			431, "too many fields"},
		{"Fields and more added than any proxy does", http1.Limits{Fields: 3}, false,
			"GET / HTTP/1.1\r\n" + host + x("Via: 1.1 a\r\n", 18) + "\r\n",
			"GET / HTTP/1.1\r\n" + host + x("Via: 1.1 a\r\n", 19) + "\r\n",
			431, "too many fields"},
		{"empty lines", http1.Limits{}, false,
			x("\r\n", 4) + "GET / HTTP/1.1\r\n" + host + "\r\n",
			x("\r\n", 5) + "GET / HTTP/1.1\r\n" + host + "\r\n",
			400, "too many empty lines before a request line"},
		{"options", http1.Limits{}, false,
			"GET / HTTP/1.1\r\n" + host + "Connection: a" + x(",", 29) + "b\r\nConnection: c,d\r\n\r\n",
			"GET / HTTP/1.1\r\n" + host + "Connection: a" + x(",", 29) + "b\r\nConnection: c,d,\r\n\r\n",
			400, "too many connection options"},
		{"interim responses", http1.Limits{}, true,
			x("HTTP/1.1 103 x\r\n\r\n", 16) + "HTTP/1.1 204 x\r\n\r\n",
			x("HTTP/1.1 103 x\r\n\r\n", 17) + "HTTP/1.1 204 x\r\n\r\n",
			502, "too many interim responses"},
		{"chunk line", http1.Limits{}, false,
			chunked + "1;" + x("a", 252) + "\r\nx\r\n0\r\n\r\n",
			chunked + "1;" + x("a", 253) + "\r\nx\r\n0\r\n\r\n",
			400, "a chunk-size line is too long"},
		// Each such chunk costs 146 bytes, 18 of them free.
		{"chunk waste", http1.Limits{}, false,
			chunked + x("1;"+x("a", 140)+"\r\nx\r\n", 128) + "0\r\n\r\n",
			chunked + x("1;"+x("a", 140)+"\r\nx\r\n", 129) + "0\r\n\r\n",
			400, "too much chunk framing for too little data"},
		{"trailer", http1.Limits{}, false,
			chunked + "0\r\nA: " + x("a", 10) + "\r\nB: " + x("b", 20<<10-22) + "\r\n\r\n",
			chunked + "0\r\nA: " + x("a", 10) + "\r\nB: " + x("b", 20<<10-21) + "\r\n\r\n",
			431, "the trailer section is too large"},
		{"trailer by a line", http1.Limits{}, false,
			chunked + "0\r\nA: " + x("a", 20<<10-7) + "\r\n\r\n",
			chunked + "0\r\nA: " + x("a", 20<<10-6) + "\r\n\r\n",
			431, "the trailer section is too large"},
	} {
		talk := http1test.Conversation{Limits: &c.limits, Response: c.response}
		got, err := talk.ReadAllWays([]byte(c.within))
		if err != nil || got.Err != nil || len(got.Messages) == 0 || !got.Messages[len(got.Messages)-1].Complete {
			t.Errorf("%s: within: %v\n%s", c.name, err, got)
		}
		got, err = talk.ReadAllWays([]byte(c.beyond))
		if err != nil || got.Err == nil || got.Err.Error() != "http1: "+c.reason || http1.StatusOf(got.Err) != c.status {
			t.Errorf("%s: beyond: want %d %q: %v\n%s", c.name, c.status, c.reason, err, got)
		}
	}
}

// TestLimitsComeEarly sees that what is too long, whatever proxies may have
// added, is refused before its end.
func TestLimitsComeEarly(t *testing.T) {
	for _, c := range []struct {
		name, in string
		status   int
	}{
		{"request line", "GET /" + strings.Repeat("a", 20<<10), 414},
		{"field", "GET / HTTP/1.1\r\nA: " + strings.Repeat("a", 20<<10), 431},
		{"head", "GET / HTTP/1.1\r\n" + strings.Repeat("A: "+strings.Repeat("a", 1000)+"\r\n", 21), 431},
		{"chunk line", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1;" + strings.Repeat("a", 256), 400},
	} {
		got, err := new(http1test.Conversation).ReadAllWays([]byte(c.in))
		if err != nil || http1.StatusOf(got.Err) != c.status {
			t.Errorf("%s: %v, %v", c.name, got.Err, err)
		}
	}
}

// TestEmptyLinesInPieces sees that empty lines add up over calls, and that each
// message has its own.
func TestEmptyLinesInPieces(t *testing.T) {
	const get = "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
	four := strings.Repeat("\r\n", 4)
	got, err := new(http1test.Conversation).ReadAllWays([]byte(four + get + four + get))
	if err != nil || got.Err != nil || len(got.Messages) != 2 {
		t.Errorf("%v\n%s", err, got)
	}
}

// TestHugeLimits sees that limits beyond what a Reader can count do not wrap.
func TestHugeLimits(t *testing.T) {
	huge := http1.Limits{HeadBytes: math.MaxInt, Fields: math.MaxInt}
	in := "\r\nPOST / HTTP/1.1\r\nHost: a\r\nConnection: x\r\nTransfer-Encoding: " +
		"chunked\r\n\r\n1;a\r\nx\r\n0\r\nA: b\r\n\r\n"
	talk := http1test.Conversation{Limits: &huge}
	got, err := talk.ReadAllWays([]byte(in))
	if err != nil || got.Err != nil || len(got.Messages) != 1 || got.Messages[0].Body != "x" {
		t.Errorf("%v\n%s", err, got)
	}
}
