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

	"weir/bench/lab/rig"
)

const (
	readBytes     = 16 << 10
	stampedWithin = 30 * time.Second // how long the kernel may take to switch on the times of packets
	answerText    = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\nOK"
)

// A recorder is a target that records the arrival time of each request: the time at which the
// kernel received its last segment, not the time at which this process read it. Requests have no
// bodies, and each is answered at once.
//
// Safe for concurrent use: mu guards what follows it.
type recorder struct {
	addr    string
	sockets *rig.Sockets

	mu        sync.Mutex
	stamps    []int64 // nanoseconds of the wall clock
	unstamped int     // requests without a time from the kernel
}

// startRecorder listens on a free port of loopback. It returns when requests are recorded with the
// kernel's time: the kernel switches that on in the background when a first socket asks for it, so
// without waiting it would be missing from the first requests.
func startRecorder() (*recorder, error) {
	// Connections inherit the option, so it is set before the first request.
	config := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		var set error
		err := raw.Control(func(fd uintptr) { set = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1) })
		return errors.Join(err, set)
	}}
	listen, err := config.Listen(context.Background(), "tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("start the recorder: %w", err)
	}
	r := &recorder{addr: listen.Addr().String()}
	r.sockets = rig.Accept(listen, r.serve)
	for begin := time.Now(); ; {
		_, err := r.precision(1, time.Millisecond)
		if err == nil {
			return r, nil
		}
		if time.Since(begin) > stampedWithin {
			r.sockets.Stop()
			return nil, fmt.Errorf("start the recorder: after %v: %w", stampedWithin, err)
		}
	}
}

// serve records and answers the requests on a connection until it ends.
func (r *recorder) serve(c net.Conn) {
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
			_, _ = io.WriteString(c, answerText) // a closed connection is noticed when reading
		}
	}
}

// note records requests with the time in a control message.
func (r *recorder) note(requests int, control []byte) {
	stamp, ok := stampOf(control)
	if !ok {
		stamp = time.Now().UnixNano()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stamps = append(r.stamps, slices.Repeat([]int64{stamp}, requests)...)
	if !ok {
		r.unstamped += requests
	}
}

// count returns how many requests end in b. state is the number of bytes of the final empty line
// before b, after that at the end of b.
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

// stampOf reads the time from a control message SCM_TIMESTAMPNS: seconds and nanoseconds.
func stampOf(control []byte) (int64, bool) {
	all, err := unix.ParseSocketControlMessage(control)
	if err != nil || len(all) == 0 || all[0].Header.Level != unix.SOL_SOCKET ||
		all[0].Header.Type != unix.SCM_TIMESTAMPNS {
		return 0, false
	}
	seconds, nanos := binary.NativeEndian.Uint64(all[0].Data), binary.NativeEndian.Uint64(all[0].Data[8:])
	return int64(seconds)*int64(time.Second) + int64(nanos), true
}

func (r *recorder) take() (stamps []int64, unstamped int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	stamps, unstamped = r.stamps, r.unstamped
	r.stamps, r.unstamped = nil, 0
	slices.Sort(stamps)
	return stamps, unstamped
}

// precision sends n requests to the recorder and returns by how much the recorded times are
// after the start of each write. That bounds what the recorder and the kernel add to
// measurements.
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
	stamps, unstamped := r.take()
	if len(stamps) != n || unstamped > 0 {
		return nil, fmt.Errorf("of %d requests %d were recorded, %d of them without the kernel's time", n, len(stamps),
			unstamped)
	}
	after := make([]time.Duration, n)
	for i := range after {
		after[i] = time.Duration(stamps[i] - sent[i])
	}
	return after, nil
}
