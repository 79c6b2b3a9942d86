package deferred_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"weir/internal/net/http1"
	"weir/proxy/deferred"
)

// An answer is kept up to a bound, however it is cut, without the fields of its connection.
func TestAnswer(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 19, 16, 30, 0, 0, time.UTC)
	const text = "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\nHTTP/1.1 503 Service " +
		"Unavailable\r\nRetry-After: WHEN\r\nX-A: b\r\n" +
		"Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n"
	for when, after := range map[string]time.Duration{"7": 7 * time.Second, "Mon, 19 Jan 2026 16:31:00 GMT": time.Minute,
		"Mon, 19 Jan 2026 16:29:00 GMT": 0, "soon": 0, "-1": 0, "": 0,
		"Monday, 19-Jan-26 16:31:00 GMT": time.Minute, "Mon Jan 19 16:31:00 2026": time.Minute,
		"Sun Feb  1 16:30:00 2026": 13 * 24 * time.Hour,
		"40000000":                 40_000_000 * time.Second, "99999999999": math.MaxInt64,
		"99999999999999999999":           math.MaxInt64,
		"Monday, 19-Jan-76 16:30:00 GMT": 18262 * 24 * time.Hour, "Monday, 19-Jan-76 16:30:01 GMT": 0,
		"Monday, 19-Jan-99 16:30:00 GMT": 0,
		"Mon Jan 19 16:31:00 26":         0} {
		for _, piece := range []int{1, 7, len(text)} {
			a := deferred.NewResponseReader(&http1.Limits{}, 8)
			for in := []byte(strings.Replace(text, "WHEN", when, 1)); len(in) > 0; {
				n := min(piece, len(in))
				a.Write(now, in[:n])
				in = in[n:]
			}
			if a.Status != 503 || a.RetryAfter != after || string(a.Head) != "Retry-After: "+when+"\r\nX-A: b\r\n" ||
				string(a.Body) != "hello wo" || a.Bytes != 11 || !a.Truncated {
				t.Errorf("%s in pieces of %d: %d after %v, %q %q, %d bytes, truncated %v", when, piece, a.Status, a.RetryAfter,
					a.Head, a.Body, a.Bytes, a.Truncated)
			}
		}
	}
}
