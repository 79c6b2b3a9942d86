package wire

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"weir/internal/test/testkit"
)

// h2cTarget runs a target that speaks HTTP/1.1 and HTTP/2 without TLS, and returns its host and port.
func h2cTarget(t *testing.T, h http.HandlerFunc, tweak ...func(c *http.Server)) string {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetHTTP1(true)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	for _, f := range tweak {
		f(s.Config)
	}
	s.Start()
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

// echo answers with what it has received.
func echo(w http.ResponseWriter, q *http.Request) {
	body, err := io.ReadAll(q.Body)
	if err != nil {
		return
	}
	w.Header().Set("X-Seen", fmt.Sprintf("%s %s %s %s %d %s", q.Method, q.Host, q.RequestURI, q.Header.Get("Cookie"),
		len(body), q.Header.Get("X-Forwarded-For")))
	w.Header().Set("X-Proto", q.Proto)
	_, _ = w.Write(bytes.Repeat(body, 3))
}

func TestTargetHTTP2Requests(t *testing.T) {
	t.Parallel()
	addr := h2cTarget(t, echo)
	r := startWith(t, func(c *Config) { c.HTTP2.PriorKnowledge = true }, "h2c://"+addr, "HTTP2", "all")
	url := "http://" + r.Addr().String()
	for _, client := range []*http.Client{http2Client(t), {Transport: new(http.Transport)}} {
		for _, size := range []int{0, 10, 70_000, 255_000, 2 << 20} {
			for _, method := range []string{"GET", "HEAD", "POST", "PUT"} {
				var body io.Reader
				sent := 0
				if method == "POST" || method == "PUT" {
					body, sent = strings.NewReader(strings.Repeat("x", size)), size
				}
				q := testkit.Must(http.NewRequest(method, url+"/a?b=c", body))(t)
				q.Header.Set("Cookie", "k=v")
				a := testkit.Must(client.Do(q))(t)
				got, err := io.ReadAll(a.Body)
				want := fmt.Sprintf("%s %s /a?b=c k=v %d 127.0.0.1", method, r.Addr(), sent)
				if err != nil || a.Header.Get("X-Proto") != "HTTP/2.0" || a.Header.Get("X-Seen") != want || len(got) != 3*sent {
					t.Errorf("%s of %d: %d, %v, %s, the target saw %q, want %q; %d bytes %.100s", method, size, a.StatusCode, err,
						a.Header.Get("X-Proto"), a.Header.Get("X-Seen"), want, len(got), got)
				}
			}
		}
	}
}
