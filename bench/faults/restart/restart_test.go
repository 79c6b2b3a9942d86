package restart

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"weir/bench/lab/result/resulttest"
	"weir/bench/lab/rig"
	"weir/bench/lab/rig/rigtest"
	"weir/internal/test/testkit"
)

func well() *run {
	r := newRun("", "")
	r.changes = []change{{number: 1, handed: 10 * time.Millisecond, drained: 2 * time.Second}}
	for _, t := range r.tallies {
		*t = tally{ok: 10, across: 1}
	}
	return r
}

func TestReport(t *testing.T) {
	for _, c := range []struct {
		name    string
		change  func(r *run)
		problem string
	}{
		{"a success", func(*run) {}, ""},
		{"a refused connect", func(r *run) { r.tallies["fresh"].faults[refused] = 1 }, "fresh: 1 refused"},
		{"a reset", func(r *run) { r.tallies["kept"].faults[reset] = 2 }, "kept: 2 reset"},
		{"a cut stream", func(r *run) { r.tallies["events"].faults[cut] = 3 }, "events: 3 cut"},
		{"a wrong answer", func(r *run) { r.tallies["upload"].faults[wrong] = 4 }, "upload: 4 wrong"},
		{"nothing happened", func(r *run) { r.tallies["rare"].ok = 0 }, "rare: no exchange succeeded"},
		{"nothing was in progress", func(r *run) { r.tallies["slow"].across = 0 }, "slow: none was in progress"},
		{"an old process that stays", func(r *run) { r.changes[0].problem = "did not end" }, "restart 1: did not end"},
	} {
		r := well()
		c.change(r)
		_, err := rigtest.Run(t, r.show)
		resulttest.RequireError(t, c.name, err, c.problem)
	}
}

func newWorker(t *testing.T, k kind, addr string) *worker {
	w := &worker{kind: &k, run: newRun(addr, "")}
	t.Cleanup(w.hangUp)
	return w
}

// Against the experiments' target itself every kind of exchange goes well.
func TestExchanges(t *testing.T) {
	srv := httptest.NewServer(rig.FaultyTarget())
	defer srv.Close()
	var all sync.WaitGroup
	defer all.Wait()
	for _, k := range kinds() {
		if k.name == "events" || k.name == "slow" { // these take their time
			continue
		}
		all.Go(func() {
			w := newWorker(t, k, srv.Listener.Addr().String())
			if _, _, err := w.exchange(); err != nil {
				t.Errorf("%s: %v", k.name, err)
			}
			if open := w.conn != nil; open == k.fresh {
				t.Errorf("%s: the connection was kept: %t", k.name, open)
			}
		})
	}
}

// What a server does wrong is told by its kind.
func TestFaults(t *testing.T) {
	for _, c := range []struct {
		name, answer string
		want         fault
	}{
		{"nothing", "", reset},
		{"half a head", "HTTP/1.1 200 OK\r\nContent-Le", reset},
		{"half a body", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nO", cut},
		{"half a chunked body", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nOK\r\n", cut},
		{"another body", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nKO", wrong},
		{"another status", "HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n", wrong},
		{"all", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nOK", none},
	} {
		addr := testkit.Serve(t, func(conn net.Conn) {
			_, _ = http.ReadRequest(bufio.NewReader(conn))
			_, _ = io.WriteString(conn, c.answer)
			_ = conn.Close()
		})
		_, got, err := newWorker(t, kinds()[0], addr).exchange()
		if got != c.want || (err == nil) != (c.want == none) {
			t.Errorf("%s is %v (%v), want %v", c.name, got, err, c.want)
		}
	}
}

func TestRefused(t *testing.T) {
	addr := testkit.FreeAddr(t)
	_, f, err := newWorker(t, kinds()[0], addr).exchange()
	if f != refused || err == nil {
		t.Errorf("where nobody listens: %v (%v), want refused", f, err)
	}
}

// A connection that was closed between two exchanges is no failure.
func TestClosedWhileIdle(t *testing.T) {
	srv := httptest.NewServer(rig.FaultyTarget())
	defer srv.Close()
	w := newWorker(t, kinds()[0], srv.Listener.Addr().String())
	if _, _, err := w.exchange(); err != nil {
		t.Fatal(err)
	}
	if closed, unasked := look(w.conn); closed || unasked {
		t.Fatal("an open connection looks closed, or not silent")
	}
	srv.CloseClientConnections()
	testkit.Eventually(t, "the closed connection looks closed", func() bool { closed, _ := look(w.conn); return closed })
	if _, _, err := w.exchange(); err != nil || w.run.idleClosed.Load() != 1 {
		t.Errorf("afterwards: %v, %d found closed", err, w.run.idleClosed.Load())
	}
}

// An answer too many is found before the next request.
func TestUnasked(t *testing.T) {
	ln := testkit.Listen(t)
	w := newWorker(t, kinds()[0], ln.Addr().String())
	w.conn = testkit.Must(net.Dial("tcp", w.run.addr))(t)
	conn := testkit.Must(ln.Accept())(t)
	defer conn.Close()
	if _, err := io.WriteString(conn, "HTTP/1.1 200 OK\r\n"); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "what was sent shows", func() bool { _, unasked := look(w.conn); return unasked })
	_, f, err := w.exchange()
	if f != wrong || err == nil {
		t.Errorf("got %v (%v), want wrong", f, err)
	}
}

// Bodies are judged by every byte.
func TestDiffers(t *testing.T) {
	want := make(map[string]string)
	for _, k := range kinds() {
		want[k.name] = k.want
	}
	pattern := want["download"]
	for _, c := range []struct{ name, kind, got, says string }{
		{"the pattern", "download", pattern, ""},
		{"a byte off", "download", pattern[:streamBytes-1] + "!", `from byte 4194303 it is "!"`},
		{"a byte missing", "download", pattern[:streamBytes-1], "has 4194303 bytes, want 4194304"},
		{"a byte too many", "download", pattern + "a", "has 4194305 bytes, want 4194304"},
		{"an event too few", "events", "data: 0\n\n", "has 9 bytes"},
		{"another hash", "upload", "4194304 abc", "has 11 bytes, want 72"},
	} {
		resulttest.RequireError(t, c.name, differs(c.got, want[c.kind]), c.says)
	}
}

// The first answer through a process ends the wait for it.
func TestNote(t *testing.T) {
	w := newWorker(t, kinds()[0], "")
	for _, x := range []struct {
		exchange
		generation int64
	}{
		{exchange{"1.1 proxy-2", time.Second, false, none, nil}, 2},
		{exchange{"1.1 proxy-3", time.Second, true, none, nil}, 3},
		{exchange{"1.1 proxy-2", 2 * time.Second, true, none, nil}, 3}, // an exchange that took longer
		{exchange{fault: cut, err: io.ErrUnexpectedEOF}, 3},
	} {
		if w.run.note(w.kind, x.exchange); w.run.generation.Load() != x.generation {
			t.Errorf("after %+v the newest proxy that has answered is %d, want %d", x.exchange, w.run.generation.Load(),
				x.generation)
		}
	}
	if err := w.run.awaitAnswer(t.Context(), nil, 3); err != nil {
		t.Errorf("a process that has answered: %v", err)
	}
	got := *w.run.tallies["kept"]
	if got.ok != 3 || got.across != 2 || got.longest != 2*time.Second || got.faults[cut] != 1 || w.run.failures() != 1 {
		t.Errorf("noted %+v", got)
	}
}
