package restart

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"weir/bench/lab/rig"
)

const (
	patience = 20 * time.Second // for each step of an exchange
	// Uploads and downloads have streamBytes, in pieces followed by a pause, so that some are
	// always in progress.
	streamBytes = 4 << 20
	pieceBytes  = 64 << 10
	piecePause  = 10 * time.Millisecond
	events      = 40
	eventPause  = 100 * time.Millisecond
	slowAnswer  = 2 * time.Second
)

// A kind is a kind of exchange, with its number of workers and rate.
type kind struct {
	name, about string
	workers     int
	pause       time.Duration // between two exchanges of a worker; ± 50 %
	fresh       bool          // each on a new connection
	long        bool          // should be in progress when the proxy is replaced
	path        string
	body        []byte // to POST; nil for GET
	want        string // the body of the answer
}

// kinds returns all kinds. The rare exchanges find their connections closed by a draining
// proxy; the others receive Connection: close before.
func kinds() []kind {
	stream := rig.Pattern(streamBytes)
	n, hash, _ := rig.Digest(bytes.NewReader(stream))
	var all strings.Builder
	for i := range events {
		fmt.Fprintf(&all, "data: %d\n\n", i)
	}
	return []kind{
		{name: "kept", about: "on a connection that is kept alive", workers: 32, pause: 50 * time.Millisecond,
			path: "/api/test", want: "OK"},
		{name: "rare", about: "the same, 3 s apart", workers: 16, pause: 3 * time.Second, path: "/api/test", want: "OK"},
		{name: "fresh", about: "each on a new connection", workers: 8, pause: 50 * time.Millisecond, fresh: true,
			path: "/api/test", want: "OK"},
		{name: "upload", about: "4 MiB in about 0.7 s", workers: 2, long: true, path: "/hash", body: stream,
			want: fmt.Sprintf("%d %s", n, hash)},
		{name: "download", about: "the same", workers: 2, long: true, path: fmt.Sprintf("/bytes/%d", streamBytes),
			want: string(stream)},
		{name: "events", about: "40 in 4 s", workers: 2, long: true,
			path: fmt.Sprintf("/events/%d/%v", events, eventPause), want: all.String()},
		{name: "slow", about: "the answer starts after 2 s", workers: 2, long: true,
			path: fmt.Sprintf("/after/%v", slowAnswer), want: "OK"},
	}
}

// A fault classifies the error of an exchange.
type fault int

const (
	none    fault = iota
	refused       // no connection
	reset         // no answer to what was sent
	cut           // the answer is truncated
	wrong         // another status or body
	faults
)

func (f fault) String() string { return [...]string{"none", "refused", "reset", "cut", "wrong"}[f] }

// A worker plays exchanges of one kind, one after another.
//
// Owned by its goroutine.
type worker struct {
	*kind
	run  *run
	conn net.Conn
	in   *bufio.Reader
}

// work plays exchanges until ctx ends, and finishes the last one.
func (w *worker) work(ctx context.Context) {
	for rig.Wait(ctx, w.pause/2+rand.N(w.pause+1)) == nil {
		began, generation := time.Now(), w.run.generation.Load()
		via, f, err := w.exchange()
		w.run.note(w.kind, exchange{via, time.Since(began), w.run.generation.Load() != generation, f, err})
	}
	w.hangUp()
}

func (w *worker) hangUp() {
	if w.conn != nil {
		_ = w.conn.Close()
		w.conn = nil
	}
}

// exchange sends a request and reads the answer. via names the proxy that carried it, and f classifies
// the error.
func (w *worker) exchange() (via string, f fault, err error) {
	if w.conn != nil {
		switch closed, unasked := look(w.conn); {
		case unasked:
			w.hangUp()
			return "", wrong, errors.New("an unsolicited answer")
		case closed:
			w.hangUp() // not a failure, as nothing was sent
			w.run.idleClosed.Add(1)
		}
	}
	if w.conn == nil {
		if w.conn, err = net.DialTimeout("tcp", w.run.addr, patience); err != nil {
			w.conn = nil
			return "", refused, err
		}
		w.in = bufio.NewReader(patient{w.conn})
	}
	via, open, f, err := w.ask()
	if err != nil || !open || w.fresh {
		w.hangUp()
	}
	return via, f, err
}

// ask plays one exchange on the connection. open says whether the connection can be used again.
func (w *worker) ask() (via string, open bool, f fault, err error) {
	if err := w.request().Write(patient{w.conn}); err != nil {
		return "", false, reset, err
	}
	resp, err := http.ReadResponse(w.in, nil)
	if err != nil {
		return "", false, reset, err
	}
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 200))
		return "", false, wrong, fmt.Errorf("%s: %s", resp.Status, text)
	}
	got, err := io.ReadAll(&paced{Reader: resp.Body})
	if err != nil {
		return "", false, cut, err
	}
	if err := differs(string(got), w.want); err != nil {
		return "", false, wrong, err
	}
	return resp.Header.Get("X-Via"), !resp.Close, none, nil
}

func (k *kind) request() *http.Request {
	r := &http.Request{URL: &url.URL{Path: k.path}, Host: "weir"}
	if k.body != nil {
		r.Method, r.ContentLength, r.Body = http.MethodPost, int64(len(k.body)),
			io.NopCloser(&paced{Reader: bytes.NewReader(k.body)})
	}
	return r
}

// A patient connection extends its deadline with each read and write.
type patient struct{ net.Conn }

func (c patient) Read(p []byte) (int, error) {
	_ = c.SetReadDeadline(time.Now().Add(patience))
	return c.Conn.Read(p)
}

func (c patient) Write(p []byte) (int, error) {
	_ = c.SetWriteDeadline(time.Now().Add(patience))
	return c.Conn.Write(p)
}

// A paced reader pauses after each piece.
type paced struct {
	io.Reader
	read int // of the current piece
}

func (r *paced) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p[:min(len(p), pieceBytes-r.read)])
	if r.read += n; r.read == pieceBytes {
		time.Sleep(piecePause)
		r.read = 0
	}
	return n, err
}

// look reports, without reading, whether the peer has closed the connection, and whether it has
// sent data.
func look(c net.Conn) (closed, unasked bool) {
	raw, err := c.(syscall.Conn).SyscallConn()
	if err != nil {
		return true, false
	}
	err = raw.Control(func(fd uintptr) {
		var b [1]byte
		n, _, err := unix.Recvfrom(int(fd), b[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
		closed, unasked = !errors.Is(err, unix.EAGAIN), n > 0
	})
	return closed || err != nil, unasked
}

func differs(got, want string) error {
	if got == want {
		return nil
	}
	at := 0
	for at < min(len(got), len(want)) && got[at] == want[at] {
		at++
	}
	return fmt.Errorf("the answer has %d bytes, want %d; from byte %d it is %.100q, want %.100q", len(got), len(want),
		at, got[at:], want[at:])
}
