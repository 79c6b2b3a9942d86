package rig

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"weir/internal/testkit"
)

func TestMisbehaviour(t *testing.T) {
	srv := httptest.NewServer(Misbehaviour())
	defer srv.Close()
	_, empty, _ := Digest(strings.NewReader(""))
	for _, c := range []struct {
		path, want string
		broken     bool // the body breaks off
		none       bool // there is no answer at all
	}{
		{path: "/api/test", want: "OK"},
		{path: "/bytes/50000", want: string(AppendPattern(nil, 0, 50000))},
		{path: "/hash", want: "0 " + empty},
		{path: "/after/1ms", want: "OK"},
		{path: "/events/3/1ms", want: "data: 0\n\ndata: 1\n\ndata: 2\n\n"},
		{path: "/cut", want: strings.Repeat("x", 100), broken: true},
		{path: "/junk", none: true},
	} {
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, srv.URL+c.path, nil)
		req.Header.Set("Via", "1.1 me")
		resp, err := http.DefaultTransport.RoundTrip(req)
		if (err != nil) != c.none {
			t.Errorf("%s: %v", c.path, err)
		}
		if err != nil {
			continue
		}
		body, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if (err != nil) != c.broken || string(body) != c.want {
			t.Errorf("%s: %d bytes, %.60q, %v", c.path, len(body), body, err)
		}
		if via := resp.Header.Get("X-Via"); via != "1.1 me" && !c.broken {
			t.Errorf("%s: came through %q", c.path, via)
		}
	}
}

func TestServeEnds(t *testing.T) {
	addr := testkit.FreeAddr(t)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- Serve(ctx, addr, Misbehaviour()) }()
	cancel()
	if err := <-done; err != nil {
		t.Errorf("the end of a target is told as %v", err)
	}
}

func TestWatch(t *testing.T) {
	stop := testkit.Must(Watch(os.Getpid()))(t)
	u, err := stop()
	if err != nil || u.RSSBefore <= 0 || u.RSSPeak < u.RSSBefore || u.Over <= 0 {
		t.Errorf("used %+v, %v", u, err)
	}
	if got := (Usage{CPU: time.Second, Over: 4 * time.Second}).Cores(); got != 0.25 {
		t.Errorf("a second of four is %v cores", got)
	}
	if n, err := Descriptors(os.Getpid()); err != nil || n < 3 {
		t.Errorf("%d descriptors, %v", n, err)
	}
	if _, err := Watch(1 << 30); err == nil {
		t.Error("a process that is none is watched")
	}
}

func TestProcessEndsByItself(t *testing.T) {
	p := testkit.Must(Start("ender", nil, "sh", "-c", "read x; exit 4"))(t)
	if err := p.AwaitEnd(t.Context(), time.Minute); err == nil || !strings.Contains(err.Error(), "exit status 4") {
		t.Errorf("its end is told as %v", err)
	}
	if ended, how := p.Ended(); !ended || how == nil {
		t.Errorf("afterwards: %t, %v", ended, how)
	}
}

func TestPattern(t *testing.T) {
	whole := AppendPattern(nil, 0, 1000)
	if again := AppendPattern(AppendPattern(nil, 0, 333), 333, 667); !bytes.Equal(whole, again) {
		t.Error("the pattern depends on how it is cut")
	}
	if bytes.Equal(whole[:500], whole[500:]) {
		t.Error("a lost piece would not show")
	}
}
