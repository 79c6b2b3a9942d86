package service

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/klauspost/compress/gzip"

	"weir/internal/data/strict"
	"weir/internal/program/metric"
	"weir/internal/test/testkit"
)

// env is what Run would be given.
func env() *Env { return &Env{Health: new(Health), Metrics: metric.New()} }

// request asks a handler.
func request(h http.Handler, method, target string, fields ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, nil)
	for i := 0; i < len(fields); i += 2 {
		r.Header.Set(fields[i], fields[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestHealth(t *testing.T) {
	e := env()
	h := NewEndpoints(e)
	f := func(target string, status int, body string) {
		t.Helper()
		w := request(h, "GET", target)
		if w.Code != status || w.Body.String() != body+"\n" || w.Header().Get("Content-Type") != "application/json" {
			t.Errorf("%s: have %d %s, want %d %s", target, w.Code, w.Body, status, body)
		}
	}
	const live, ready = "/actuator/health", "/actuator/health/readiness"
	f(live, 200, `{"status":"UP"}`)
	f(ready, 503, `{"status":"OUT_OF_SERVICE"}`)
	e.Health.SetReady(true)
	f(ready, 200, `{"status":"UP"}`)
	e.Health.Component("store", func() any { return map[string]string{"status": "DOWN", "mode": "failopen"} })
	e.Health.Component("alpha", func() any { return 1 })
	f(live, 200, `{"status":"UP","components":{"alpha":1,"store":{"mode":"failopen","status":"DOWN"}}}`)
	e.Health.SetReady(false)
	f(ready, 503, `{"status":"OUT_OF_SERVICE","components":{"alpha":1,"store":{"mode":"failopen","status":"DOWN"}}}`)
}

// What is told of a component is never more than a second old, and is told
// while the component itself keeps whoever asks it waiting.
func TestHealthIsFresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := new(Health)
		var state, stuck atomic.Bool
		release := make(chan struct{})
		h.Component("store", func() any {
			if stuck.Load() {
				<-release
			}
			return state.Load()
		})
		stop := h.follow()
		told := func() string { return string(h.liveness().Body) }
		for _, up := range []bool{true, false} {
			state.Store(up)
			time.Sleep(time.Second)
			synctest.Wait()
			if want := fmt.Sprintf("{\"status\":\"UP\",\"components\":{\"store\":%t}}\n", up); told() != want {
				t.Errorf("told %s, want %s", told(), want)
			}
		}
		stuck.Store(true)
		time.Sleep(time.Second)
		if told() == "" {
			t.Error("nothing is told")
		}
		close(release)
		stop()
	})
}

func TestMetricsEndpoint(t *testing.T) {
	e := env()
	e.Metrics.Counter("x_total", strings.Repeat("long help ", 300), func() uint64 { return 5 })
	h := NewEndpoints(e)
	var want strings.Builder
	e.Metrics.Write(&want)
	for _, target := range []string{"/metrics", "/actuator/prometheus"} {
		w := request(h, "GET", target)
		if w.Code != 200 || w.Body.String() != want.String() || w.Header().Get("Content-Type") != metric.ContentType {
			t.Errorf("%s: %d %v %s", target, w.Code, w.Header(), w.Body)
		}
		for accept, encoding := range map[string]string{"gzip": "gzip", "zstd": "", "gzip;q=0": "",
			"deflate, gzip;q=0.5": "gzip"} {
			w = request(h, "GET", target, "Accept-Encoding", accept)
			var body io.Reader = w.Body
			if encoding == "gzip" {
				z, err := gzip.NewReader(w.Body)
				if err != nil {
					t.Fatalf("%s, %s: %v", target, accept, err)
				}
				body = z
			}
			text, err := io.ReadAll(body)
			if err != nil || string(text) != want.String() || w.Header().Get("Content-Encoding") != encoding {
				t.Errorf("%s, %s: %v, %v", target, accept, err, w.Header())
			}
		}
	}
}

func TestEndpointsErrors(t *testing.T) {
	h := NewEndpoints(env())
	h.mux.HandleFunc("POST /config/{name}", func(w http.ResponseWriter, r *http.Request) {
		WriteJSON(w, http.StatusOK, r.PathValue("name"))
	})
	h.mux.HandleFunc("/own/", func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "as the handler wants it", http.StatusNotFound)
	})
	f := func(method, target string, status int, allow, body string) {
		t.Helper()
		w := request(h, method, target)
		if w.Code != status || strings.TrimSpace(w.Body.String()) != body || w.Header().Get("Allow") != allow {
			t.Errorf("%s %s: have %d %q %s", method, target, w.Code, w.Header().Get("Allow"), w.Body)
		}
	}
	f("POST", "/config/limits", 200, "", `"limits"`)
	f("GET", "/nowhere?x=<y>", 404, "", `{"error":"not found: /nowhere"}`)
	f("PUT", "/config/limits", 405, "POST", `{"error":"PUT is not allowed here; allowed: POST"}`)
	f("DELETE", "/metrics", 405, "GET, HEAD", `{"error":"DELETE is not allowed here; allowed: GET, HEAD"}`)
	f("GET", "/own/thing", 404, "", "as the handler wants it")
	if w := request(h, "GET", "/x/../metrics"); w.Code/100 != 3 || w.Header().Get("Location") != "/metrics" {
		t.Errorf("an unclean path: %d, %v", w.Code, w.Header())
	}
}

func TestWriteError(t *testing.T) {
	f := func(err error, body string) {
		t.Helper()
		w := httptest.NewRecorder()
		WriteError(w, http.StatusBadRequest, err)
		if w.Code != 400 || w.Body.String() != body+"\n" {
			t.Errorf("%v: %d %s, want %s", err, w.Code, w.Body, body)
		}
	}
	fault := strict.Fault{Path: "steps[2].rps", Message: "must be > 0 & finite"}
	f(errors.New(`say "no"`), `{"error":"say \"no\""}`)
	f(fault, `{"error":"must be > 0 & finite","path":"steps[2].rps"}`)
	f(fmt.Errorf("read rules: %w", fault),
		`{"error":"read rules: steps[2].rps: must be > 0 & finite","path":"steps[2].rps"}`)
	f(strict.Fault{Message: "not JSON"}, `{"error":"not JSON"}`)
}

// The status of an error is its own; a fault is the request's, unless another error wraps it.
func TestStatusOf(t *testing.T) {
	fault := strict.Fault{Path: "a", Message: "is wrong"}
	for _, f := range []struct {
		err    error
		status int
	}{
		{fault, 400},
		{strict.Faults{fault, fault}, 400},
		{WithStatus(404, fault), 404},
		{fmt.Errorf("read the document: %w", fault), 500},
		{errors.New("broken"), 500},
	} {
		if status := StatusOf(f.err); status != f.status {
			t.Errorf("%v: %d, want %d", f.err, status, f.status)
		}
	}
	w := httptest.NewRecorder()
	if WriteError(w, 404, WithStatus(404, fault)); w.Body.String() != `{"error":"is wrong","path":"a"}`+"\n" {
		t.Errorf("a fault with a status: %s", w.Body)
	}
}

func TestWriteJSONRefused(t *testing.T) {
	w := httptest.NewRecorder()
	WriteJSON(w, http.StatusOK, math.NaN())
	if w.Code != 500 || w.Body.String() != `{"error":"the answer cannot be written as JSON"}`+"\n" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

func TestReadBody(t *testing.T) {
	f := func(size int, broken error, status int, answer string) {
		t.Helper()
		text := strings.Repeat("x", size)
		var body io.Reader = strings.NewReader(text)
		if broken != nil {
			body = io.MultiReader(body, brokenReader{broken})
		}
		w := httptest.NewRecorder()
		have, err := ReadBody(w, httptest.NewRequest("POST", "/", body))
		if err == nil && (status != 0 || string(have) != text) {
			t.Errorf("%d bytes, %v: read %d", size, broken, len(have))
		}
		if err != nil {
			WriteError(w, StatusOf(err), err)
		}
		if err != nil && (w.Code != status || w.Body.String() != answer+"\n") {
			t.Errorf("%d bytes, %v: %d %s", size, broken, w.Code, w.Body)
		}
	}
	f(0, nil, 0, "")
	f(BodyBytesMax, nil, 0, "")
	f(BodyBytesMax+1, nil, 413, `{"error":"the body is larger than 4 MiB"}`)
	f(5, io.ErrUnexpectedEOF, 400, `{"error":"the body ended early"}`)
}

type brokenReader struct{ err error }

func (r brokenReader) Read([]byte) (int, error) { return 0, r.err }

func TestServe(t *testing.T) {
	l := testkit.Listen(t)
	ctx, stop := context.WithCancel(context.Background())
	entered := make(chan struct{})
	h := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(entered)
		stop() // an answer under way is finished
		WriteJSON(w, http.StatusOK, "late")
	})
	served := make(chan error, 1)
	go func() { served <- Serve(ctx, l, h, slog.New(slog.DiscardHandler)) }()
	response := testkit.Must(http.Get("http://" + l.Addr().String()))(t)
	defer func() { _ = response.Body.Close() }()
	<-entered
	if text, err := io.ReadAll(response.Body); err != nil || string(text) != "\"late\"\n" {
		t.Errorf("%s, %v", text, err)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
}

func TestServeOnClosedListener(t *testing.T) {
	l := testkit.Listen(t)
	_ = l.Close()
	err := Serve(context.Background(), l, http.NotFoundHandler(), slog.New(slog.DiscardHandler))
	if !errors.Is(err, net.ErrClosed) || !strings.HasPrefix(err.Error(), "serve 127.0.0.1:") {
		t.Errorf("have %v", err)
	}
}

// What programs answer is written for people: no digits of the arithmetic, no time that
// never was.
func TestWriteJSONPlainly(t *testing.T) {
	w := httptest.NewRecorder()
	WriteJSON(w, http.StatusOK, struct {
		Seconds float64   `json:"seconds"`
		At      time.Time `json:"at"`
	}{Seconds: (2989333 * time.Microsecond).Seconds()})
	if have := w.Body.String(); have != `{"seconds":2.989333,"at":null}`+"\n" {
		t.Errorf("have %s", have)
	}
}

// On a port for operators no endpoint answers with what clients or targets have written; on any
// port the answers of others are of the type that they declare.
func TestForOperators(t *testing.T) {
	own := NewEndpoints(env())
	for _, one := range OwnEndpoints() {
		if one.ServesUntrustedContent() || one.Pattern == "GET /deferred/{id}" {
			own.HandleFunc(one.Pattern,
				func(w http.ResponseWriter, _ *http.Request) { WriteJSON(w, http.StatusOK, "from a target") })
		}
	}
	for _, f := range []struct {
		target                  string
		everybody, forOperators int
	}{{"/deferred/1", 200, 200}, {"/deferred/1/result", 200, 421}, {"/deferred/1/result?a=b", 200, 421},
		{"/none", 404, 404}, {"/actuator/health", 200, 200}} {
		for _, method := range []string{"GET", "HEAD"} {
			open, closed := request(own, method, f.target), request(own.ForOperators(), method, f.target)
			if open.Code != f.everybody || closed.Code != f.forOperators {
				t.Errorf("%s %s is answered %d and %d, want %d and %d", method, f.target, open.Code, closed.Code, f.everybody,
					f.forOperators)
			}
			if f.everybody != f.forOperators && strings.Contains(closed.Body.String(), "from a target") {
				t.Errorf("%s is answered %s", f.target, closed.Body)
			}
			if got := open.Header().Get("X-Content-Type-Options"); got != "nosniff" {
				t.Errorf("%s has X-Content-Type-Options %q", f.target, got)
			}
		}
	}
}
