package serve

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/internal/metric"
	"weir/internal/service"
	"weir/target/model"
)

// patience is how long a test waits for what must happen before it calls it
// lost.
const patience = 2 * time.Minute

// A rig is a target that runs for one test, and a client.
type rig struct {
	*Server
	t      *testing.T
	env    *service.Env
	log    *logBuffer
	client *http.Client
}

// start runs a target on two loops with the behaviour cfg. It is stopped when
// the test ends.
func start(t *testing.T, cfg model.Config) *rig {
	t.Helper()
	return startWith(t, Config{Model: cfg, Loops: 2, DrainTimeout: patience, Seed: 1})
}

func startWith(t *testing.T, cfg Config) *rig {
	t.Helper()
	log := new(logBuffer)
	env := newEnv(log)
	s, err := Start(env, cfg)
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{Server: s, t: t, env: env, log: log, client: &http.Client{Transport: &http.Transport{}, Timeout: patience}}
	t.Cleanup(func() {
		r.client.CloseIdleConnections()
		s.cfg.DrainTimeout = 0
		s.Drain()
	})
	return r
}

// newEnv is what service.Main gives to a program.
func newEnv(log *logBuffer) *service.Env {
	return &service.Env{
		Addr: "127.0.0.1:0", Health: new(service.Health), Metrics: metric.New(),
		Log: slog.New(slog.NewTextHandler(log, nil)),
	}
}

// A logBuffer keeps what is logged.
//
// Safe for concurrent use: a mutex guards the text.
type logBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

func (r *rig) url(path string) string { return "http://" + r.Addr().String() + path }

// do sends a request with net/http and returns status, fields and body.
func (r *rig) do(method, path, body string) (int, http.Header, string) {
	r.t.Helper()
	req, err := http.NewRequest(method, r.url(path), strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	res, err := r.client.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return res.StatusCode, res.Header, string(text)
}

// want sends a request and fails unless it is answered with status and body.
func (r *rig) want(method, path, body string, status int, text string) {
	r.t.Helper()
	gotStatus, _, gotText := r.do(method, path, body)
	if gotStatus != status || gotText != text {
		r.t.Errorf("%s %s: %d %q, want %d %q", method, path, gotStatus, gotText, status, text)
	}
}

// until waits until what is true.
func (r *rig) until(what string, is func() bool) {
	r.t.Helper()
	for deadline := time.Now().Add(patience); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			r.t.Fatalf("never came true: %s", what)
		}
	}
}

// inside waits until so many requests are being served and so many wait.
func (r *rig) inside(busy, waiting int) {
	r.t.Helper()
	r.until(fmt.Sprintf("%d busy and %d waiting", busy, waiting), func() bool {
		return r.station.busy() == busy && r.station.waiting() == waiting
	})
}

// A wire is a raw connection.
type wire struct {
	net.Conn
	t  *testing.T
	in *bufio.Reader
}

func (r *rig) dial() *wire {
	r.t.Helper()
	c, err := net.Dial("tcp", r.Addr().String())
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		r.t.Fatal(err)
	}
	return &wire{Conn: c, t: r.t, in: bufio.NewReader(c)}
}

const get = "GET /api/test HTTP/1.1\r\nHost: x\r\n\r\n"

func (w *wire) send(text string) {
	w.t.Helper()
	if _, err := io.WriteString(w, text); err != nil {
		w.t.Fatal(err)
	}
}

// answer reads one response to a request with the given method.
func (w *wire) answer(method string) (*http.Response, string) {
	w.t.Helper()
	res, err := http.ReadResponse(w.in, &http.Request{Method: method})
	if err != nil {
		w.t.Fatalf("read answer: %v", err)
	}
	body, err := io.ReadAll(res.Body)
	if err != nil {
		w.t.Fatalf("read body of answer: %v", err)
	}
	return res, string(body)
}

// status reads one response to GET and fails unless it has the status.
func (w *wire) status(want int) *http.Response {
	w.t.Helper()
	res, body := w.answer("GET")
	if res.StatusCode != want {
		w.t.Errorf("answered %d %q, want %d", res.StatusCode, body, want)
	}
	return res
}

// closed fails unless the target closes the connection without another byte.
func (w *wire) closed() {
	w.t.Helper()
	if b, err := w.in.ReadByte(); err != io.EOF {
		w.t.Errorf("the connection is not closed: read %q, %v", b, err)
	}
}

// samples reads the metrics.
func (r *rig) samples() map[string]float64 {
	r.t.Helper()
	status, _, text := r.do("GET", "/metrics", "")
	if status != 200 {
		r.t.Fatalf("metrics: %d", status)
	}
	samples := make(map[string]float64)
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		at := strings.LastIndexByte(line, ' ')
		value, err := strconv.ParseFloat(line[at+1:], 64)
		if err != nil {
			r.t.Fatalf("metrics line %q: %v", line, err)
		}
		if _, twice := samples[line[:at]]; twice {
			r.t.Errorf("the sample %s is there twice", line[:at])
		}
		samples[line[:at]] = value
	}
	return samples
}
