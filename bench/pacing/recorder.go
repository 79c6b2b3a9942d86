package pacing

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	readBytes  = 16 << 10
	answerText = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\nOK"
)

// A recorder is a target that notes when each request came: the time at which
// the kernel took its last segment from the network, not the time at which this
// process read it. Requests have no bodies, and each is answered at once.
//
// Safe for concurrent use: mu guards what follows it.
type recorder struct {
	addr    string
	listen  net.Listener
	serving sync.WaitGroup

	mu     sync.Mutex
	conns  map[net.Conn]bool // nil: it was stopped
	stamps []int64           // nanoseconds of the wall clock
	blind  int               // requests whose time the kernel did not tell
}

// startRecorder listens on a free port of loopback.
func startRecorder() (*recorder, error) {
	// Connections inherit the option, so that no request is earlier than it.
	config := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		var set error
		err := raw.Control(func(fd uintptr) { set = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1) })
		return errors.Join(err, set)
	}}
	listen, err := config.Listen(context.Background(), "tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("start the recorder: %w", err)
	}
	r := &recorder{addr: listen.Addr().String(), listen: listen, conns: make(map[net.Conn]bool)}
	r.serving.Go(r.accept)
	return r, nil
}

func (r *recorder) accept() {
	for {
		c, err := r.listen.Accept()
		if err != nil {
			return
		}
		r.mu.Lock()
		open := r.conns != nil
		if open {
			r.conns[c] = true
			r.serving.Go(func() { r.serve(c) })
		}
		r.mu.Unlock()
		if !open {
			_ = c.Close()
		}
	}
}

// serve records and answers what comes on a connection until it ends.
func (r *recorder) serve(c net.Conn) {
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.conns, c)
		_ = c.Close()
	}()
	raw, err := c.(*net.TCPConn).SyscallConn()
	if err != nil {
		return
	}
	var buf [readBytes]byte
	var control [64]byte
	for state := 0; ; { // bytes of the empty line seen so far
		var n, nc, ends int
		var failed error
		err := raw.Read(func(fd uintptr) bool {
			n, nc, _, _, failed = unix.Recvmsg(int(fd), buf[:], control[:], 0)
			return !errors.Is(failed, unix.EAGAIN)
		})
		if err != nil || failed != nil || n <= 0 {
			return
		}
		if ends, state = count(buf[:n], state); ends > 0 {
			r.note(ends, control[:nc])
		}
		for range ends {
			_, _ = io.WriteString(c, answerText) // a client that is gone is noticed when reading
		}
	}
}

// note records requests with the time in a control message.
func (r *recorder) note(requests int, control []byte) {
	stamp, told := stampOf(control)
	if !told {
		stamp = time.Now().UnixNano()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stamps = append(r.stamps, slices.Repeat([]int64{stamp}, requests)...)
	if !told {
		r.blind += requests
	}
}

// count is how many requests end in b, behind state bytes of an empty line, and
// the state behind it.
func count(b []byte, state int) (ends, after int) {
	const end = "\r\n\r\n"
	for _, c := range b {
		switch {
		case c == end[state]:
			state++
		case c == end[0]:
			state = 1
		default:
			state = 0
		}
		if state == len(end) {
			ends, state = ends+1, 0
		}
	}
	return ends, state
}

// stampOf reads the time from a control message SCM_TIMESTAMPNS: a header of
// length, level and type, then seconds and nanoseconds.
func stampOf(control []byte) (int64, bool) {
	const header, size = 16, 32
	if len(control) < size || binary.NativeEndian.Uint32(control[8:]) != unix.SOL_SOCKET ||
		binary.NativeEndian.Uint32(control[12:]) != unix.SO_TIMESTAMPNS {
		return 0, false
	}
	seconds, nanos := binary.NativeEndian.Uint64(control[header:]), binary.NativeEndian.Uint64(control[header+8:])
	return int64(seconds)*int64(time.Second) + int64(nanos), true
}

// take returns the times recorded since it was called last, in order.
func (r *recorder) take() (stamps []int64, blind int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	stamps, blind = r.stamps, r.blind
	r.stamps, r.blind = nil, 0
	slices.Sort(stamps)
	return stamps, blind
}

// stop closes all sockets and waits until nothing is served any more.
func (r *recorder) stop() {
	_ = r.listen.Close()
	r.mu.Lock()
	for c := range r.conns {
		_ = c.Close()
	}
	r.conns = nil
	r.mu.Unlock()
	r.serving.Wait()
}

// precision measures the recorder: it sends n requests itself, and returns how
// long after the beginning of each write its recorded time is. That is all the
// recorder may add to what it measures of others, and the way through the kernel
// besides.
func (r *recorder) precision(n int, every time.Duration) ([]time.Duration, error) {
	r.take()
	c, err := net.Dial("tcp", r.addr)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	sent := make([]int64, n)
	answer := make([]byte, len(answerText))
	for i := range sent {
		time.Sleep(every)
		sent[i] = time.Now().UnixNano()
		if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: recorder\r\n\r\n"); err != nil {
			return nil, err
		}
		if _, err := io.ReadFull(c, answer); err != nil {
			return nil, fmt.Errorf("the recorder does not answer: %w", err)
		}
	}
	stamps, blind := r.take()
	if len(stamps) != n || blind > 0 {
		return nil, fmt.Errorf("of %d requests %d were recorded, %d without the kernel's time", n, len(stamps), blind)
	}
	after := make([]time.Duration, n)
	for i := range after {
		after[i] = time.Duration(stamps[i] - sent[i])
	}
	return after, nil
}
