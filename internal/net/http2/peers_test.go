package http2_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/internal/net/http1"
	"weir/internal/net/http2"
	"weir/internal/test/testkit"
)

// command runs a program to its end and returns its output.
func command(t *testing.T, name string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Timeout)
	defer cancel()
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	if err != nil {
		t.Errorf("%s %q: %v\n%s", name, args, err, out)
	}
	return string(out)
}

// builtSpec returns h2spec, which is installed or is built from its module.
func builtSpec(t *testing.T) string {
	if path, err := exec.LookPath("h2spec"); err == nil {
		return path
	}
	return filepath.Join(testkit.BuildOrSkip(t, "h2spec", "github.com/summerwind/h2spec/cmd/h2spec"), "h2spec")
}

func TestH2spec(t *testing.T) {
	_, port, _ := net.SplitHostPort(serve(t, nil))
	out := command(t, builtSpec(t), "-h", "127.0.0.1", "-p", port, "-o", "20")
	if !strings.Contains(out, "145 tests, 145 passed, 0 skipped, 0 failed") {
		_, failures, _ := strings.Cut(out, "Failures:")
		t.Errorf("%s", failures)
	}
}

// curl, and libnghttp2 by way of h2load.
func TestPeers(t *testing.T) {
	base := "http://" + serve(t, nil)
	body := filepath.Join(t.TempDir(), "body")
	testkit.WriteFile(t, body, strings.Repeat("x", 300_000))
	curl := testkit.FindOrSkip(t, "curl")
	out := command(t, curl, "-sS", "--http2-prior-knowledge", "--data-binary", "@"+body, base+"/5")
	if want := strings.Repeat("\x00", 5) + "hello\n" + strings.Repeat("x", 300_000); out != want {
		t.Errorf("curl received %d bytes, want %d", len(out), len(want))
	}
	out = command(t, testkit.FindOrSkip(t, "h2load"), "-c", "4", "-m", "32", "-n", "400", "-d", body, base+"/70000")
	if !strings.Contains(out, "400 succeeded, 0 failed, 0 errored") {
		t.Errorf("h2load: %s", out)
	}
}

// net/http is client of our server.
func TestStandardClient(t *testing.T) {
	addr := serve(t, nil)
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	defer transport.CloseIdleConnections()
	client := http.Client{Transport: transport, Timeout: testkit.Timeout}
	done := make(chan error)
	for i := range 50 {
		go func() {
			want := strings.Repeat("\x00", i*5000) + "hello\n" + strings.Repeat("y", i*3000)
			resp, err := client.Post(fmt.Sprintf("http://%s/%d", addr, i*5000), "text/plain",
				strings.NewReader(strings.Repeat("y", i*3000)))
			if err != nil {
				done <- err
				return
			}
			defer resp.Body.Close()
			if got, err := io.ReadAll(resp.Body); err != nil || string(got) != want || resp.ProtoMajor != 2 {
				done <- fmt.Errorf("%s, %d bytes, want %d: %w", resp.Proto, len(got), len(want), err)
				return
			}
			done <- nil
		}()
	}
	for range 50 {
		if err := testkit.Receive(t, done, "a response"); err != nil {
			t.Error(err)
		}
	}
}

// net/http is server of our client: interim responses, bodies larger than the windows in both directions, trailers.
func TestStandardServer(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusEarlyHints)
		w.Header().Set("Trailer", "X-Sum")
		w.Header().Set("X-Path", r.Host+r.URL.Path)
		n, _ := io.Copy(w, r.Body)
		w.Header().Set("X-Sum", fmt.Sprint(n, r.Trailer.Get("X-Client")))
	}))
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Start()
	defer server.Close()
	conn := testkit.Dial(t, server.Listener.Addr().String())
	f := fetcher{t: t, conn: conn, c: http2.New(http2.Client, nil, time.Now())}
	f.run(40)
	for id, got := range f.got {
		want := fmt.Sprintf("103 200 x-path=a.test/%d x-sum=%d/%d", id, len(f.bodies[id]), id)
		if got.text != want || !bytes.Equal(got.body, f.bodies[id]) {
			t.Errorf("stream %d: %q with %d bytes, want %q with %d", id, got.text, len(got.body), want, len(f.bodies[id]))
		}
	}
}

// A fetcher sends requests on one connection, each with a body and trailers, and reads the responses.
type fetcher struct {
	t      *testing.T
	conn   net.Conn
	c      *http2.Conn
	h      http2.Head
	bodies map[uint32][]byte // of the requests
	left   map[uint32][]byte // what of them is not sent
	got    map[uint32]*fetched
	ended  int
}

type fetched struct {
	text string
	body []byte
}

func (f *fetcher) run(n int) {
	f.bodies, f.left, f.got = make(map[uint32][]byte), make(map[uint32][]byte), make(map[uint32]*fetched)
	var in, out []byte
	buf := make([]byte, 16<<10)
	for f.ended < n {
		for len(f.got) < n && f.c.Free() > 0 {
			out = f.request(out)
		}
		out = f.c.AppendControl(f.send(out))
		if _, err := f.conn.Write(out); err != nil {
			f.t.Fatal(err)
		}
		out = out[:0]
		size, err := f.conn.Read(buf)
		if err != nil {
			f.t.Fatal(err)
		}
		in = f.read(append(in, buf[:size]...))
	}
}

// request opens a stream with a body of a length that depends on its identifier.
func (f *fetcher) request(out []byte) []byte {
	id := uint32(2*len(f.got) + 1)
	r := http2.Request{Method: []byte("POST"), Scheme: "http", Authority: []byte("a.test"),
		Path: fmt.Append(nil, "/", id), Fields: []byte("Trailer: X-Client\r\nHost: b\r\nConnection: close\r\n")}
	out, opened, err := f.c.AppendRequest(out, &r, false)
	if err != nil || opened != id {
		f.t.Fatalf("request: stream %d, %v", opened, err)
	}
	f.bodies[id] = bytes.Repeat([]byte{byte(id)}, int(id*5000))
	f.left[id] = f.bodies[id]
	f.got[id] = new(fetched)
	return out
}

// send sends what the windows allow.
func (f *fetcher) send(out []byte) []byte {
	for id, p := range f.left {
		var n int
		out, n = f.c.AppendData(out, id, p, false)
		if f.left[id] = p[n:]; n < len(p) {
			continue
		}
		delete(f.left, id)
		var err error
		if out, err = f.c.AppendTrailers(out, id, http1.AppendField(nil, "X-Client", fmt.Append(nil, "/", id))); err != nil {
			f.t.Fatal(err)
		}
	}
	return out
}

// read processes what was received and returns the rest.
func (f *fetcher) read(in []byte) []byte {
	for {
		ev, err := f.c.Next(time.Now(), in, &f.h)
		if err != nil || ev.Kind == http2.Reset {
			f.t.Fatalf("event %v: %v", ev, err)
		}
		got := f.got[ev.Stream]
		switch ev.Kind {
		case http2.NeedMore:
			return slices.Clone(in[ev.N:])
		case http2.HeadDone:
			got.text += fmt.Sprint(f.h.Status, " ")
			if path, ok := f.h.Field("x-path"); ok {
				got.text += fmt.Sprintf("x-path=%s ", path)
			}
		case http2.Data:
			got.body = append(got.body, ev.Data...)
			f.c.Consumed(ev.Stream, len(ev.Data))
		case http2.Trailers:
			got.text += fmt.Sprintf("%s=%s", f.h.Fields[0].Name, f.h.Fields[0].Value)
		}
		if ev.EndStream {
			f.ended++
		}
		in = in[ev.N:]
	}
}
