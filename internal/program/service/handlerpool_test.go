package service

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"weir/internal/program/journal"
)

// serving returns Endpoints that have one handler for everything.
func serving(h http.HandlerFunc) *Endpoints {
	o := NewEndpoints(env())
	o.mux.HandleFunc("/", h)
	return o
}

// answerOf asks a HandlerPool and waits for the reply.
func answerOf(t *testing.T, d *HandlerPool, raw string) Response {
	t.Helper()
	replies := make(chan Response, 1)
	bytes := []byte(raw)
	if !d.Submit(bytes, Addrs{Remote: netip.MustParseAddrPort("10.0.0.1:5")}, func(r Response) { replies <- r }) {
		t.Fatalf("%q is refused", raw)
	}
	clear(bytes) // they are the loop's again
	return <-replies
}

func TestHandlerPoolReplies(t *testing.T) {
	own := NewEndpoints(env())
	mux := own.mux
	mux.HandleFunc("POST /echo/{name}", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		w.Header().Add("X-B", "2")
		w.Header().Add("X-A", "1")
		w.Header().Add("X-B", "3")
		w.Header().Set("Connection", "close")
		w.Header().Set("Content-Length", "999")
		w.WriteHeader(http.StatusEarlyHints)
		w.WriteHeader(http.StatusCreated)
		w.WriteHeader(http.StatusTeapot)
		w.Header().Set("X-Late", "1")
		fmt.Fprintf(w, "%s %s %s %s %v", r.PathValue("name"), r.Host, r.RemoteAddr, body, err)
	})
	mux.HandleFunc("/empty", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("/none", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNoContent)
		_, err := io.WriteString(w, "body")
		if err == nil {
			t.Error("204 takes a body")
		}
	})
	mux.HandleFunc("/json", func(w http.ResponseWriter, _ *http.Request) { WriteJSON(w, 202, 5) })
	mux.HandleFunc("/panic", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusOK)
		panic("oh")
	})
	before := slog.Default()
	defer slog.SetDefault(before)
	var logged strings.Builder
	slog.SetDefault(slog.New(journal.NewHandler("text", slog.LevelInfo, &logged)))

	d := NewHandlerPool(own, 1, 1)
	defer d.Close()
	f := func(raw, want string) {
		t.Helper()
		r := answerOf(t, d, raw)
		// see TestNothingCanBeFramed
		r.Fields = slices.DeleteFunc(r.Fields, func(f [2]string) bool {
			return f[0] == "Content-Security-Policy" ||
				f[0] == "X-Frame-Options"
		})
		if have := fmt.Sprintf("%d %q %s", r.Status, r.Fields, r.Body); have != want {
			t.Errorf("%q:\nhave %s\nwant %s", raw, have, want)
		}
	}
	const nosniff = `["X-Content-Type-Options" "nosniff"]]`
	const jsonType = `[["Content-Type" "application/json"] ` + nosniff
	f("POST /echo/me HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc",
		`201 [["Content-Type" "application/octet-stream"] ["X-A" "1"] ["X-B" "2"] ["X-B" "3"] `+nosniff+
			` me h 10.0.0.1:5 abc <nil>`)
	f("GET /empty HTTP/1.1\r\nHost: h\r\n\r\n", `200 [`+nosniff+" ")
	f("GET /none HTTP/1.1\r\nHost: h\r\n\r\n", `204 [`+nosniff+" ")
	f("GET /json HTTP/1.0\r\n\r\n", "202 "+jsonType+" 5\n")
	f("GET http://h/json HTTP/1.1\r\nHost: h\r\n\r\n", "202 "+jsonType+" 5\n")
	f("GET /gone HTTP/1.1\r\nHost: h\r\n\r\n", "404 "+jsonType+` {"error":"not found: /gone"}`+"\n")
	f("GET /panic HTTP/1.1\r\nHost: h\r\n\r\n", "500 "+jsonType+` {"error":"internal error"}`+"\n")
	f("GET /json HTTP/1.1\r\nHost", "400 "+jsonType+` {"error":"the request cannot be read"}`+"\n")
	f("GET /json HTTP/1.1\r\nHost: h\r\n\r\n", "202 "+jsonType+" 5\n") // it lives on
	if n := strings.Count(logged.String(), "ERROR HandlerPool - Panic while answering value=oh stack="); n != 1 {
		t.Errorf("the panic is logged %d times: %s", n, logged.String())
	}
}

// another is a connection of the i-th client.
func another(i int) Addrs {
	return Addrs{Remote: netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 1, byte(i)}), 80)}
}

// The bounds hold: so many at work, so many waiting, no more; and every request
// taken on is answered, also when the pool closes.
func TestHandlerPoolBounds(t *testing.T) {
	const workers, waiting = 2, 3
	entered, release := make(chan struct{}), make(chan struct{})
	d := NewHandlerPool(serving(func(http.ResponseWriter, *http.Request) {
		entered <- struct{}{}
		<-release
	}), workers, waiting)
	var answered atomic.Int32
	raw := []byte("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
	done := func(Response) { answered.Add(1) }
	for i := range workers {
		if !d.Submit(raw, another(i), done) {
			t.Fatal("refused with idle workers")
		}
		<-entered
	}
	for i := range waiting {
		if !d.Submit(raw, another(workers+i), done) {
			t.Fatalf("refused with %d waiting", i)
		}
	}
	if d.Submit(raw, another(workers+waiting), done) {
		t.Error("taken on with all places taken")
	}
	var closing sync.WaitGroup
	closing.Go(d.Close)
	close(release)
	for range waiting {
		<-entered
	}
	closing.Wait()
	if n := answered.Load(); n != workers+waiting {
		t.Errorf("%d answered, want %d", n, workers+waiting)
	}
	if d.Submit(raw, Addrs{}, done) {
		t.Error("taken on after Close")
	}
	if n := d.Refused(); n != 2 {
		t.Errorf("%d are counted as refused, want 2", n)
	}
	d.Close() // again does nothing
}

// Health is answered although all workers and places are taken.
func TestHandlerPoolAnswersHealthAtOnce(t *testing.T) {
	entered, release := make(chan struct{}), make(chan struct{})
	own := NewEndpoints(env())
	own.mux.HandleFunc("/blocked", func(http.ResponseWriter, *http.Request) {
		entered <- struct{}{}
		<-release
	})
	d := NewHandlerPool(own, 1, 1)
	defer d.Close()
	defer close(release)
	blocked := []byte("GET /blocked HTTP/1.1\r\nHost: h\r\n\r\n")
	d.Submit(blocked, Addrs{}, func(Response) {})
	<-entered
	if !d.Submit(blocked, another(1), func(Response) {}) || d.Submit(blocked, another(2), func(Response) {}) {
		t.Fatal("the places are not taken as they should be")
	}
	go func() { <-entered }()
	for _, test := range []struct {
		line string
		want int
	}{
		{"GET /actuator/health HTTP/1.1", 200},
		{"HEAD /actuator/health HTTP/1.1", 200},
		{"GET /actuator/health?a=b HTTP/1.0", 200},
		{"GET /actuator/health/readiness HTTP/1.1", 503},
		{"POST /actuator/health HTTP/1.1", 0},
		{"GET /actuator/healthy HTTP/1.1", 0},
		{"GET /actuator/prometheus HTTP/1.1", 0},
	} {
		status := 0
		if taken := d.Submit([]byte(test.line+"\r\nHost: h\r\n\r\n"), Addrs{},
			func(r Response) { status = r.Status }); taken != (test.want > 0) || status != test.want {
			t.Errorf("%s: taken on: %t, answered %d at once, want %d", test.line, taken, status, test.want)
		}
	}
}

// Asks from many loops while the pool closes: each is answered or refused.
func TestHandlerPoolClosesUnderLoad(t *testing.T) {
	d := NewHandlerPool(serving(http.NotFound), 2, 4)
	var taken, answered atomic.Int32
	var loops sync.WaitGroup
	begun := make(chan struct{}, 4)
	for range 4 {
		loops.Go(func() {
			for i := range 200 {
				if d.Submit([]byte("GET / HTTP/1.1\r\nHost: h\r\n\r\n"), Addrs{}, func(Response) { answered.Add(1) }) {
					taken.Add(1)
				}
				if i == 20 {
					begun <- struct{}{}
				}
			}
		})
	}
	<-begun
	d.Close()
	closedAt := answered.Load()
	loops.Wait()
	if taken.Load() != answered.Load() || answered.Load() != closedAt {
		t.Errorf("%d taken on, %d answered, %d of them before Close returned", taken.Load(), answered.Load(), closedAt)
	}
}

func BenchmarkHandlerPool(b *testing.B) {
	d := NewHandlerPool(serving(func(w http.ResponseWriter, _ *http.Request) { WriteJSON(w, 200, 5) }), 1, 1)
	defer d.Close()
	raw := []byte("GET /other HTTP/1.1\r\nHost: h\r\nAccept: */*\r\n\r\n")
	replies := make(chan Response, 1)
	done := func(r Response) { replies <- r }
	b.ReportAllocs()
	for b.Loop() {
		if d.Submit(raw, Addrs{}, done) {
			<-replies
		}
	}
}

// Requests that are kept apart hold nobody else up, however many there are.
func TestHandlerPoolApart(t *testing.T) {
	held, working := make(chan struct{}), make(chan struct{}, 3)
	d := NewHandlerPool(serving(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/apart/") {
			working <- struct{}{}
			<-held
		}
		fmt.Fprint(w, r.URL.Path)
	}), 1, 1).Dedicate("/apart/", 1)
	answers := make(chan Response, 2)
	ask := func(client int) bool {
		return d.Submit([]byte("GET /apart/1?a HTTP/1.1\r\nHost: x\r\n\r\n"), another(client),
			func(r Response) { answers <- r })
	}
	if !ask(1) {
		t.Fatal("the first is refused")
	}
	<-working
	if !ask(2) {
		t.Fatal("there is no place to wait")
	}
	if ask(3) {
		t.Error("more wait than there are places")
	}
	if r := answerOf(t, d, "GET /other HTTP/1.1\r\nHost: x\r\n\r\n"); string(r.Body) != "/other" {
		t.Errorf("answered %d %s", r.Status, r.Body)
	}
	close(held)
	d.Close()
	for range 2 {
		if r := <-answers; string(r.Body) != "/apart/1" {
			t.Errorf("answered %d %s", r.Status, r.Body)
		}
	}
}
