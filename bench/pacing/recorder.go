package pacing

import (
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	backlog    = 4096
	readBytes  = 16 << 10
	eventsMax  = 512
	answerText = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\nOK"
)

// A recorder is a target that notes when each request came: the time at which
// the kernel took its last segment from the network, not the one at which this
// process got round to it. Requests have no bodies, and each is answered at
// once.
//
// Safe for concurrent use: mu guards stamps; the sockets belong to its thread.
type recorder struct {
	addr   string
	listen int
	poll   int
	wake   int // an eventfd that ends the thread
	ended  chan struct{}
	conns  map[int]int // bytes of the empty line seen so far, by descriptor

	mu     sync.Mutex
	stamps []int64 // nanoseconds of the wall clock
	blind  int     // requests whose time the kernel did not tell
}

// startRecorder listens on a free port of loopback.
func startRecorder() (*recorder, error) {
	r := &recorder{listen: -1, poll: -1, wake: -1, ended: make(chan struct{}), conns: make(map[int]int)}
	if err := r.open(); err != nil {
		r.closeAll()
		return nil, fmt.Errorf("start the recorder: %w", err)
	}
	go r.serve()
	return r, nil
}

func (r *recorder) open() (err error) {
	if r.listen, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0); err != nil {
		return err
	}
	// Connections inherit it, so that no request is earlier than the option.
	if err := unix.SetsockoptInt(r.listen, unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1); err != nil {
		return err
	}
	if err := unix.Bind(r.listen, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return err
	}
	if err := unix.Listen(r.listen, backlog); err != nil {
		return err
	}
	name, err := unix.Getsockname(r.listen)
	if err != nil {
		return err
	}
	r.addr = fmt.Sprintf("127.0.0.1:%d", name.(*unix.SockaddrInet4).Port)
	if r.poll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return err
	}
	if r.wake, err = unix.Eventfd(0, unix.EFD_CLOEXEC); err != nil {
		return err
	}
	return errors.Join(r.watch(r.listen), r.watch(r.wake))
}

func (r *recorder) watch(fd int) error {
	return unix.EpollCtl(r.poll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)})
}

// serve is the recorder's thread.
func (r *recorder) serve() {
	runtime.LockOSThread()
	defer close(r.ended)
	events := make([]unix.EpollEvent, eventsMax)
	for {
		n, err := unix.EpollWait(r.poll, events, -1)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return
		}
		for _, e := range events[:max(n, 0)] {
			switch fd := int(e.Fd); fd {
			case r.wake:
				return
			case r.listen:
				r.accept()
			default:
				r.read(fd)
			}
		}
	}
}

func (r *recorder) accept() {
	for {
		fd, _, err := unix.Accept4(r.listen, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
		if err != nil {
			return
		}
		_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
		if r.watch(fd) != nil {
			_ = unix.Close(fd)
			continue
		}
		r.conns[fd] = 0
	}
}

// read takes what has come on a connection, and answers.
func (r *recorder) read(fd int) {
	var buf [readBytes]byte
	var control [64]byte
	n, nc, _, _, err := unix.Recvmsg(fd, buf[:], control[:], 0)
	if errors.Is(err, unix.EAGAIN) {
		return
	}
	if n <= 0 || err != nil {
		delete(r.conns, fd)
		_ = unix.Close(fd)
		return
	}
	ends, state := count(buf[:n], r.conns[fd])
	r.conns[fd] = state
	if ends == 0 {
		return
	}
	stamp, told := stampOf(control[:nc])
	if !told {
		stamp = time.Now().UnixNano()
	}
	r.mu.Lock()
	for range ends {
		r.stamps = append(r.stamps, stamp)
	}
	if !told {
		r.blind += ends
	}
	r.mu.Unlock()
	for range ends {
		_, _ = unix.Write(fd, []byte(answerText)) // a client that is gone is noticed when reading
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

// stop ends the thread and closes all sockets.
func (r *recorder) stop() {
	_, _ = unix.Write(r.wake, []byte{1, 0, 0, 0, 0, 0, 0, 0})
	<-r.ended
	r.closeAll()
}

func (r *recorder) closeAll() {
	for fd := range r.conns {
		_ = unix.Close(fd)
	}
	for _, fd := range []int{r.listen, r.poll, r.wake} {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
	}
}

// precision measures the recorder: it sends n requests itself, and returns how
// long after the beginning of each write(2) its recorded time is. That is all
// the recorder may add to what it measures of others, and the way through the
// kernel besides.
func (r *recorder) precision(n int, every time.Duration) ([]time.Duration, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	r.take()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	to, err := unix.Getsockname(r.listen)
	if err != nil {
		return nil, err
	}
	if err := unix.Connect(fd, to); err != nil {
		return nil, err
	}
	_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
	sent := make([]int64, n)
	answer := make([]byte, len(answerText))
	request := []byte("GET / HTTP/1.1\r\nHost: recorder\r\n\r\n")
	for i := range sent {
		pause := unix.NsecToTimespec(int64(every))
		_ = unix.ClockNanosleep(unix.CLOCK_MONOTONIC, 0, &pause, nil)
		sent[i] = time.Now().UnixNano()
		if _, err := unix.Write(fd, request); err != nil {
			return nil, err
		}
		for have := 0; have < len(answer); {
			k, err := unix.Read(fd, answer[have:])
			if err != nil || k <= 0 {
				return nil, fmt.Errorf("the recorder does not answer: %w", errors.Join(err, unix.EPIPE))
			}
			have += k
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
