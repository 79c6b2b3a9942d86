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
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"weir/bench/rig"
)

const (
	// patience bounds each step of an exchange.
	patience = 20 * time.Second
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
	method      string
	path        string
	body        []byte
	check       func(body io.Reader) error // reads and checks the body of an answer
}

// kinds returns all kinds. The rare exchanges find their connections closed by a draining
// proxy; the others receive Connection: close before.
func kinds() []kind {
	return []kind{
		{name: "kept", about: "on a connection that is kept alive", workers: 32, pause: 50 * time.Millisecond, path: "/api/test", check: checkOK},
		{name: "rare", about: "the same, 3 s apart", workers: 16, pause: 3 * time.Second, path: "/api/test", check: checkOK},
		{name: "fresh", about: "each on a new connection", workers: 8, pause: 50 * time.Millisecond, fresh: true, path: "/api/test", check: checkOK},
		{name: "upload", about: "4 MiB in about 0.7 s", workers: 2, long: true, method: "POST", path: "/hash",
			body: rig.AppendPattern(nil, 0, streamBytes), check: checkHash},
		{name: "download", about: "the same", workers: 2, long: true, path: fmt.Sprintf("/bytes/%d", streamBytes), check: checkPattern(piecePause)},
		{name: "events", about: "40 in 4 s", workers: 2, long: true, path: fmt.Sprintf("/events/%d/%v", events, eventPause), check: checkEvents},
		{name: "slow", about: "the answer starts after 2 s", workers: 2, long: true, path: fmt.Sprintf("/after/%v", slowAnswer), check: checkOK},
	}
}

// A fault classifies the failure of an exchange.
type fault int

const (
	none    fault = iota
	refused       // no connection
	reset         // no answer to what was sent
	cut           // the answer is truncated
	wrong         // another status or body
	faults
)

// String returns the fault in one word.
func (f fault) String() string { return [...]string{"none", "refused", "reset", "cut", "wrong"}[f] }

// A failure is a fault with its cause.
type failure struct {
	fault fault
	err   error
}

// Error returns both.
func (f *failure) Error() string { return f.fault.String() + ": " + f.err.Error() }

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
		via, err := w.exchange()
		w.run.note(w.kind, exchange{via, time.Since(began), w.run.generation.Load() != generation, err})
	}
	w.hangUp()
}

func (w *worker) hangUp() {
	if w.conn != nil {
		_ = w.conn.Close()
		w.conn = nil
	}
}

// exchange sends a request and reads the answer. via names the proxy that carried it.
func (w *worker) exchange() (via string, err error) {
	if w.conn != nil {
		switch closed, unasked := look(w.conn); {
		case unasked:
			w.hangUp()
			return "", &failure{wrong, errors.New("an unsolicited answer")}
		case closed:
			w.hangUp() // not a failure, as nothing was sent
			w.run.idleClosed.Add(1)
		}
	}
	if w.conn == nil {
		if w.conn, err = net.DialTimeout("tcp", w.run.addr, patience); err != nil {
			w.conn = nil
			return "", &failure{refused, err}
		}
		w.in = bufio.NewReader(w.conn)
	}
	via, open, err := w.ask()
	if err != nil || !open || w.fresh {
		w.hangUp()
	}
	return via, err
}

// ask plays one exchange on the connection. open says whether the connection can be used again.
func (w *worker) ask() (via string, open bool, err error) {
	w.patient()
	if err := w.send(); err != nil {
		return "", false, &failure{reset, err}
	}
	resp, err := http.ReadResponse(w.in, nil)
	if err != nil {
		return "", false, &failure{reset, err}
	}
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 200))
		return "", false, &failure{wrong, fmt.Errorf("%s: %s", resp.Status, text)}
	}
	body := &watched{w: w, from: resp.Body}
	if err = w.check(body); body.err != nil {
		return "", false, &failure{cut, body.err}
	} else if err != nil {
		return "", false, &failure{wrong, err}
	}
	return resp.Header.Get("X-Via"), !resp.Close, nil
}

// patient extends the deadline.
func (w *worker) patient() { _ = w.conn.SetDeadline(time.Now().Add(patience)) }

func (w *worker) send() error {
	text := w.request()
	if len(w.body) == 0 {
		_, err := w.conn.Write(text)
		return err
	}
	if _, err := w.conn.Write(text); err != nil {
		return err
	}
	for rest := w.body; len(rest) > 0; {
		n := min(len(rest), pieceBytes)
		w.patient()
		if _, err := w.conn.Write(rest[:n]); err != nil {
			return err
		}
		rest = rest[n:]
		time.Sleep(piecePause)
	}
	return nil
}

// request returns the head of the request.
func (k *kind) request() []byte {
	if k.method == "POST" {
		return fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: weir\r\nContent-Length: %d\r\n\r\n", k.path, len(k.body))
	}
	return []byte("GET " + k.path + " HTTP/1.1\r\nHost: weir\r\n\r\n")
}

// watched is a body that extends the deadline while it is read; err is why it was truncated.
type watched struct {
	w    *worker
	from io.Reader
	err  error
}

// Read implements io.Reader.
func (b *watched) Read(p []byte) (int, error) {
	b.w.patient()
	n, err := b.from.Read(p)
	if err != nil && err != io.EOF {
		b.err = err
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

func checkOK(body io.Reader) error { return same(body, "OK") }

func checkHash(body io.Reader) error {
	n, sum, err := rig.Digest(bytes.NewReader(rig.AppendPattern(nil, 0, streamBytes)))
	if err != nil {
		return err
	}
	return same(body, fmt.Sprintf("%d %s", n, sum))
}

func checkEvents(body io.Reader) error {
	var want strings.Builder
	for i := range events {
		fmt.Fprintf(&want, "data: %d\n\n", i)
	}
	return same(body, want.String())
}

// same checks that a body is want.
func same(body io.Reader, want string) error {
	got, err := io.ReadAll(body)
	if err == nil && string(got) != want {
		err = fmt.Errorf("the answer is %.100q, want %.100q", got, want)
	}
	return err
}

// checkPattern reads and checks the pattern with a pause after each piece.
func checkPattern(pause time.Duration) func(body io.Reader) error {
	return func(body io.Reader) error {
		piece := make([]byte, pieceBytes)
		for at := 0; ; {
			n, err := io.ReadFull(body, piece)
			if !bytes.Equal(piece[:n], rig.AppendPattern(nil, int64(at), n)) {
				return fmt.Errorf("some of the bytes %d to %d differ from what was sent", at, at+n)
			}
			at += n
			switch {
			case err == io.EOF || err == io.ErrUnexpectedEOF:
				if at != streamBytes {
					return fmt.Errorf("%d bytes, want %d", at, streamBytes)
				}
				return nil
			case err != nil:
				return err
			}
			time.Sleep(pause)
		}
	}
}
