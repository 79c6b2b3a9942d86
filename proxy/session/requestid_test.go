package session

import (
	"strings"
	"testing"
)

// With underscores wanted, a look-alike of the request id does not pass either.
func TestLookAlikeOfRequestID(t *testing.T) {
	b := newBench(t, 10)
	b.env.Settings.RequestID, b.env.Settings.Underscores = true, true
	b.s.HandleClient(b.now, []byte("GET / HTTP/1.1\r\nHost: x\r\nX_Request_Id: forged\r\nX_Other: 1\r\n\r\n"))
	b.s.Effects()
	b.s.HandleAcquired(b.now, "target:8081", true)
	if up := string(b.s.Effects().Upstream); strings.Contains(up, "forged") || !strings.Contains(up, "X_Other: 1") {
		t.Errorf("%s", up)
	}
}

// A page of another origin may read the id of a refusal.
func TestRequestIDIsExposed(t *testing.T) {
	b := newBench(t, 1)
	b.env.Settings.RequestID, b.env.Settings.CORS = true, true
	b.env.Policy().Limit.Take(b.now.UnixMicro(), &b.state, 1, 1)
	b.s.HandleClient(b.now, []byte("GET / HTTP/1.1\r\nHost: x\r\nOrigin: https://a.example\r\n\r\n"))
	if got := string(b.s.Effects().Client); !strings.HasPrefix(got, "HTTP/1.1 429 ") || !strings.Contains(got, ", X-Request-Id\r\n") {
		t.Errorf("%s", got)
	}
}
