package delivery

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"weir/internal/test/testkit"
	"weir/proxy/deferred/callback"
)

var postSecret = callback.Secret("a secret of at least 24 bytes")

// A postReceiver is an HTTPS server called hooks.test, which only the address in the list and the DNS
// server lead to.
type postReceiver struct {
	t    *testing.T
	port string
	dns  *testkit.NameServer
	cfg  CallbackConfig
	got  chan *http.Request // with their bodies read
	body chan string
}

// postReceives starts one; listed is what is listed beside its name and port.
func postReceives(t *testing.T, listed string, answer http.HandlerFunc) *postReceiver {
	r := &postReceiver{t: t, dns: testkit.NewNameServer(t, "hooks.test", "127.0.0.1"),
		got: make(chan *http.Request, 10), body: make(chan string, 10)}
	pair := testkit.SelfSigned(time.Now().Add(time.Hour), "hooks.test", "127.0.0.1", "::1")
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		body, _ := io.ReadAll(q.Body)
		r.got <- q
		r.body <- string(body)
		answer(w, q)
	}))
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	server.StartTLS()
	t.Cleanup(server.Close)
	_, r.port, _ = net.SplitHostPort(server.Listener.Addr().String())
	hosts := testkit.Must(callback.ParseHosts(strings.ReplaceAll(listed, "PORT", r.port)))(t)
	roots := x509.NewCertPool()
	roots.AddCert(pair.Leaf)
	r.cfg = CallbackConfig{Hosts: hosts, Secret: postSecret, Roots: roots, Resolver: r.dns.Resolver(),
		Timeout: testkit.Timeout}
	return r
}

// url is a URL at the postReceiver.
func (r *postReceiver) url(host string) string { return "https://" + host + ":" + r.port + "/paid?x=1" }

// sends makes an attempt.
func (r *postReceiver) sends(c *CallbackSender, url string) CallbackResult {
	return c.Send(r.t.Context(), time.Unix(1614265330, 0), &CallbackMessage{ID: "abc", URL: url, Body: []byte(`{"state":"done"}`)})
}

// refuses wants an attempt to fail before anything reaches the postReceiver.
func (r *postReceiver) refuses(c *CallbackSender, url, reason string) {
	r.t.Helper()
	if got := r.sends(c, url); got.Err == nil || !strings.Contains(got.Err.Error(), reason) || len(r.got) > 0 {
		r.t.Errorf("%s: %+v, and the receiver got %d requests; want %q", url, got, len(r.got), reason)
	}
}

func accepts(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }

// A callback is a signed POST of JSON; connections are used again.
func TestSend(t *testing.T) {
	t.Parallel()
	r := postReceives(t, "hooks.test:PORT=127.0.0.1", accepts)
	c := NewCallbackSender(r.cfg)
	defer c.http.CloseIdleConnections()
	var from [2]string
	for i := range from {
		if got := r.sends(c, r.url("Hooks.test")); got.Status != 204 || got.Err != nil {
			t.Fatalf("answered %+v", got)
		}
		q, body := <-r.got, <-r.body
		from[i] = q.RemoteAddr
		h := q.Header
		if q.Method != "POST" || q.RequestURI != "/paid?x=1" || body != `{"state":"done"}` ||
			h.Get("Content-Type") != "application/json" ||
			h.Get("webhook-id") != "abc" || h.Get("webhook-timestamp") != "1614265330" ||
			h.Get("webhook-signature") != postSecret.Sign("abc", time.Unix(1614265330, 0), []byte(body)) {
			t.Errorf("it got %s %s %v %s", q.Method, q.RequestURI, h, body)
		}
	}
	if from[0] != from[1] {
		t.Errorf("two connections: %q", from)
	}
}

// What a name leads to is checked when it is dialled.
func TestAddresses(t *testing.T) {
	t.Parallel()
	r := postReceives(t, "hooks.test:PORT,[::1]:PORT=127.0.0.9,127.0.0.1:PORT=127.0.0.9", accepts)
	c := NewCallbackSender(r.cfg)
	defer c.http.CloseIdleConnections()
	for _, addr := range []string{"127.0.0.1", "::1", "10.1.2.3", "169.254.169.254", "192.168.0.1", "fd00::1",
		"fe80::1", "0.0.0.0", "::", "64:ff9b::7f00:1", "2002:7f00:1::"} {
		r.dns.SetAnswers(testkit.NoError, addr)
		r.refuses(c, r.url("hooks.test"), "is not public")
	}
	r.dns.SetAnswers(testkit.NoError, "127.0.0.1 ::1 10.1.2.3")
	r.refuses(c, r.url("hooks.test"), "is not public")
	r.dns.SetAnswers(testkit.NXDomain, "")
	r.refuses(c, r.url("hooks.test"), "no such host")
	r.refuses(c, r.url("localhost"), "is not listed")
	r.refuses(c, r.url("[::ffff:127.0.0.1]"), "is not listed")
	r.refuses(c, strings.Replace(r.url("hooks.test"), "https", "http", 1), "is not https")
}

// A literal address in the list is the only one that may be dialled for it.
func TestLiterals(t *testing.T) {
	t.Parallel()
	r := postReceives(t, "127.0.0.1:PORT", accepts)
	c := NewCallbackSender(r.cfg)
	defer c.http.CloseIdleConnections()
	if got := r.sends(c, r.url("127.0.0.1")); got.Status != 204 {
		t.Errorf("answered %+v", got)
	}
}

// A name that had a permitted address when its URL was accepted, or in the attempt before, is
// refused once it leads elsewhere.
func TestDNSChanges(t *testing.T) {
	t.Parallel()
	r := postReceives(t, "hooks.test:PORT=127.0.0.1", accepts)
	c := NewCallbackSender(r.cfg)
	if got := r.sends(c, r.url("hooks.test")); got.Status != 204 {
		t.Fatalf("answered %+v", got)
	}
	<-r.got
	c.http.CloseIdleConnections()
	for _, addr := range []string{"127.0.0.2", "::1", "169.254.169.254"} {
		r.dns.SetAnswers(testkit.NoError, addr)
		r.refuses(c, r.url("hooks.test"), "is not one of those listed")
	}
}

// The address is checked of what is dialled, not of a lookup before: a server that answers with
// another address each time gains nothing.
func TestRebinding(t *testing.T) {
	t.Parallel()
	r := postReceives(t, "hooks.test:PORT=127.0.0.2", accepts) // where nobody listens
	stop := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			for _, addr := range []string{"127.0.0.1", "127.0.0.2"} {
				r.dns.SetAnswers(testkit.NoError, addr)
			}
			select {
			case <-stop:
				return
			default:
			}
		}
	}()
	for range 50 {
		c := NewCallbackSender(r.cfg)
		if got := r.sends(c, r.url("hooks.test")); got.Err == nil || len(r.got) > 0 {
			t.Fatalf("answered %+v, the receiver got %d requests", got, len(r.got))
		}
	}
	close(stop)
	<-ended
}

// Redirects are not followed; every status is returned.
func TestStatuses(t *testing.T) {
	t.Parallel()
	for _, status := range []int{200, 301, 302, 307, 308, 404, 410, 500, 503} {
		r := postReceives(t, "hooks.test:PORT=127.0.0.1", func(w http.ResponseWriter, q *http.Request) {
			w.Header().Set("Location", "/other")
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(status)
		})
		c := NewCallbackSender(r.cfg)
		if got := r.sends(c, r.url("hooks.test")); got != (CallbackResult{Status: status, RetryAfter: "7"}) ||
			len(r.got) != 1 {
			t.Errorf("%d: %+v, and the receiver got %d requests", status, got, len(r.got))
		}
		c.http.CloseIdleConnections()
	}
}

// A postReceiver can neither hold a callback for ever nor send without end.
func TestBounds(t *testing.T) {
	t.Parallel()
	flood := postReceives(t, "hooks.test:PORT=127.0.0.1", func(w http.ResponseWriter, _ *http.Request) {
		for {
			if _, err := fmt.Fprintf(w, "%65536d", 0); err != nil {
				return
			}
		}
	})
	c := NewCallbackSender(flood.cfg)
	if got := flood.sends(c, flood.url("hooks.test")); got.Status != 200 {
		t.Errorf("a flood: %+v", got)
	}
	fields := postReceives(t, "hooks.test:PORT=127.0.0.1", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X", strings.Repeat("x", headBytesMax+4096))
	})
	if got := fields.sends(NewCallbackSender(fields.cfg), fields.url("hooks.test")); got.Err == nil {
		t.Errorf("a large head: %+v", got)
	}
	silent := postReceives(t, "hooks.test:PORT=127.0.0.1",
		func(_ http.ResponseWriter, q *http.Request) { <-q.Context().Done() })
	silent.cfg.Timeout = 200 * time.Millisecond
	if got := silent.sends(NewCallbackSender(silent.cfg), silent.url("hooks.test")); got.Err == nil ||
		got.Err.Error() != "no answer within 200ms" {
		t.Errorf("silence: %+v", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got := c.Send(ctx, time.Now(), &CallbackMessage{URL: flood.url("hooks.test")}); got.Err == nil {
		t.Errorf("at the end: %+v", got)
	}
	flood.cfg.Roots = nil
	if got := flood.sends(NewCallbackSender(flood.cfg), flood.url("hooks.test")); got.Err == nil ||
		!strings.Contains(got.Err.Error(), "certificate") {
		t.Errorf("without its authority: %+v", got)
	}
}
