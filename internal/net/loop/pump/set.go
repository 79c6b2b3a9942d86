package pump

import (
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// stopGrace is how long Stop lets pumps send what their owners have written.
	stopGrace = time.Second
	// stopMax is how long Refuse and Stop wait for pumps to end.
	stopMax = 5 * time.Second
)

// A Group is pumps that are stopped together.
//
// Safe for concurrent use: mu guards all, stopped and additions to the groups.
type Group struct {
	// WriteStall is how long a peer may accept nothing after the owner has closed its
	// socket. It does not change.
	WriteStall time.Duration

	buffers sync.Pool

	mu       sync.Mutex
	all      map[*Pump]bool // false until Settle
	stopped  bool
	settling sync.WaitGroup // pumps before Settle
	running  sync.WaitGroup // all
}

func (s *Group) add(p *Pump) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return false
	}
	if s.all == nil {
		s.all = make(map[*Pump]bool)
	}
	s.all[p] = false
	s.settling.Add(1)
	s.running.Add(1)
	return true
}

// Settle records that the owner has its end of the pair, or has closed it.
func (p *Pump) Settle() {
	s := p.set
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all[p] = true
	s.settling.Done()
}

func (s *Group) remove(p *Pump) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.all[p] {
		s.settling.Done()
	}
	delete(s.all, p)
	s.running.Done()
}

// Refuse ends all handshakes and makes New return nil. It waits for pumps that have shaken
// hands, so it is called while owners still accept their ends of pairs.
func (s *Group) Refuse() {
	s.mu.Lock()
	s.stopped = true
	for p, settled := range s.all {
		if !settled {
			_ = p.wire.Close()
		}
	}
	s.mu.Unlock()
	Await(&s.settling, stopMax)
}

// Stop ends all pumps, after a grace period for what their owners have written.
func (s *Group) Stop() {
	Await(&s.running, stopGrace)
	s.mu.Lock()
	for p := range s.all {
		p.Abort()
	}
	s.mu.Unlock()
	Await(&s.running, stopMax)
}

func (s *Group) take() *[pumpBytes]byte {
	if b, ok := s.buffers.Get().(*[pumpBytes]byte); ok {
		return b
	}
	return new([pumpBytes]byte)
}

// put returns a buffer to the pool; nil is allowed.
func (s *Group) put(b *[pumpBytes]byte) {
	if b != nil {
		s.buffers.Put(b)
	}
}

// Await waits for the group, for at most the given time.
func Await(wg *sync.WaitGroup, most time.Duration) {
	done := make(chan struct{})
	go func() {
		wg.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(most):
	}
}

// Pair makes a pair of Unix sockets.
func Pair() (ours, theirs net.Conn, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	if ours, err = FileConn(fds[0]); err != nil {
		_ = unix.Close(fds[1])
		return nil, nil, err
	}
	if theirs, err = FileConn(fds[1]); err != nil {
		_ = ours.Close()
		return nil, nil, err
	}
	return ours, theirs, nil
}

// FileConn makes a net.Conn from a descriptor, which it takes over.
func FileConn(fd int) (net.Conn, error) {
	f := os.NewFile(uintptr(fd), "socket")
	defer f.Close()
	return net.FileConn(f)
}
