package roster

import (
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"weir/internal/test/testkit"
)

// greeting returns the address of a target that sends these bytes, closes the connection if they are none, and else
// waits for its end.
func greeting(t *testing.T, text string) (addr string) {
	return testkit.Serve(t, func(c net.Conn) {
		defer c.Close()
		if _, err := c.Write([]byte(text)); err == nil && text != "" {
			_, _ = io.Copy(io.Discard, c)
		}
	})
}

// served returns the address of a real server, with TLS if h2 is not nil: whether it offers HTTP/2 then.
func served(t *testing.T, h2 *bool) (addr string) {
	s := httptest.NewUnstartedServer(http.NotFoundHandler())
	t.Cleanup(s.Close)
	s.Config.Protocols = new(http.Protocols)
	if h2 == nil {
		s.Config.Protocols.SetUnencryptedHTTP2(true)
		s.Start()
		return s.Listener.Addr().String()
	}
	s.Config.Protocols.SetHTTP1(true)
	s.Config.Protocols.SetHTTP2(*h2)
	s.EnableHTTP2 = *h2
	s.StartTLS()
	return s.Listener.Addr().String()
}

// A target of HTTP/2 that accepts connections is reached only when it has sent its settings, and the cause of a check
// that fails otherwise is that.
func TestGreeting(t *testing.T) {
	t.Parallel()
	secure := &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2", "http/1.1"}}
	const (
		settings   = "\x00\x00\x00\x04\x00\x00\x00\x00\x00"
		noStreams  = "\x00\x00\x06\x04\x00\x00\x00\x00\x00\x00\x03\x00\x00\x00\x00"
		goAway     = "\x00\x00\x08\x07\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
		tooLarge   = "\xff\xff\xff\x04\x00\x00\x00\x00\x00"
		notHTTP2   = "the target does not speak HTTP/2"
		notStreams = "the target accepts no streams of HTTP/2"
	)
	for name, c := range map[string]struct {
		addr    string
		secure  *tls.Config
		probe   string // why a probe fails; empty: it does not
		checked bool   // a check fails for the same reason
	}{
		"settings":       {greeting(t, settings), nil, "", false},
		"a server":       {served(t, nil), nil, "", false},
		"TLS, h2":        {served(t, new(true)), secure, "", false},
		"TLS, http/1.1":  {served(t, new(false)), secure, "", false},
		"HTTP/1.1":       {greeting(t, "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"), nil, notHTTP2, true},
		"a port for TLS": {served(t, new(true)), nil, notHTTP2, true},
		"another frame":  {greeting(t, goAway), nil, notHTTP2, true},
		"too large":      {greeting(t, tooLarge), nil, notHTTP2, true},
		"no streams":     {greeting(t, noStreams), nil, notStreams, false},
		"goes away":      {greeting(t, settings+goAway), nil, notStreams, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := New(Config{Loops: new(fake), CheckPath: "/health", CheckInterval: time.Minute})
			spec := &Target{Addr: c.addr, Host: c.addr, Secure: c.secure, HTTP2: true}
			l.Set([]*Target{spec})
			var probe string
			if err := l.connect(t.Context(), spec); err != nil {
				probe = ErrorCause(err)
			}
			if got := l.connects(spec); probe != c.probe || got != (c.probe == "") {
				t.Errorf("a probe can connect: %t, and fails because %q, want %q", got, probe, c.probe)
			}
			if !c.checked {
				return
			}
			if err := l.check(t.Context(), spec); err == nil || ErrorCause(err) != c.probe {
				t.Errorf("a check fails because %v, want %s", err, c.probe)
			}
		})
	}
}
