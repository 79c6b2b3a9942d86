package handover

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"weir/internal/program/service"
)

// acceptPause is the wait after a failed accept, usually for lack of descriptors.
const acceptPause = 50 * time.Millisecond

// An Offered is a running process' offer of its listening sockets.
//
// Safe for concurrent use: mu guards what changes.
type Offered struct {
	name  string
	terms terms
	state func() []byte
	taken func()
	ended sync.WaitGroup

	mu         sync.Mutex
	ln         *net.UnixListener
	over       chan struct{} // closed when no more successors are accepted
	done       bool          // taken or withdrawn
	withdrawn  bool
	fds        []int
	successors map[*net.UnixConn]bool
}

// Offer lets one successor under the same user take the sockets, which it duplicates, until
// Close. state, unless nil, returns the state for a successor, at most 16 MiB; it is called
// on other goroutines. taken is called once, on another goroutine, when a successor is ready:
// this process must then stop accepting and finish its requests. The name is free by then.
func Offer(name string, sockets []syscall.Conn, state func() []byte, taken func()) (*Offered, error) {
	o := &Offered{name: name, state: state, taken: taken, terms: usual()}
	if err := o.begin(sockets); err != nil {
		return nil, fmt.Errorf("offer sockets as %s: %w", name, err)
	}
	return o, nil
}

// begin opens the offer.
func (o *Offered) begin(sockets []syscall.Conn) (err error) {
	if len(sockets) == 0 || len(sockets) > socketsMax {
		return fmt.Errorf("there are %d, 1 to %d are allowed", len(sockets), socketsMax)
	}
	if uid := o.terms.uid; !service.SameUser(uid, uid) {
		return fmt.Errorf("no successor can show that it has the same user: this process is %s", whose(uid))
	}
	if o.fds, err = duplicates(sockets); err != nil {
		return err
	}
	o.successors = make(map[*net.UnixConn]bool)
	if err = o.listen(); err != nil {
		closeAll(o.fds)
	}
	return err
}

// Close withdraws the offer. It does nothing if the sockets were taken.
func (o *Offered) Close() {
	o.mu.Lock()
	o.withdrawn = true
	o.mu.Unlock()
	if o.finish(nil) {
		o.ended.Wait()
		closeAll(o.fds)
	}
}

// listen accepts successors. o is not shared yet, or mu is held.
func (o *Offered) listen() error {
	ln, err := net.ListenUnix(network, address(o.name))
	if err != nil {
		return err
	}
	over := make(chan struct{})
	o.ln, o.over = ln, over
	o.ended.Go(func() { o.run(ln, over) })
	return nil
}

func (o *Offered) run(ln *net.UnixListener, over <-chan struct{}) {
	for {
		c, err := ln.AcceptUnix()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil:
			select {
			case <-over:
			case <-time.After(acceptPause):
			}
		case o.enter(c):
			go o.serve(c)
		default:
			_ = c.Close()
		}
	}
}

// enter admits a successor, unless there are too many.
func (o *Offered) enter(c *net.UnixConn) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.done || len(o.successors) >= successorsMax {
		return false
	}
	o.successors[c] = true
	o.ended.Add(1)
	return true
}

func (o *Offered) leave(c *net.UnixConn) {
	_ = c.Close()
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.successors, c)
}

// serve handles one successor. Its failure does not end the offer.
func (o *Offered) serve(c *net.UnixConn) {
	won := o.prepare(c) && o.yield(c)
	o.leave(c)
	o.ended.Done()
	if won {
		o.taken()
	}
}

// prepare sends the sockets to a successor and reports whether it was the first to be ready.
func (o *Offered) prepare(c *net.UnixConn) bool {
	if sameUser(c, o.terms.uid) != nil || o.give(c) != nil {
		return false
	}
	_ = c.SetDeadline(time.Now().Add(o.terms.ready))
	for {
		said, err := receive(c)
		switch {
		case err == nil && said == saidReady:
			return o.finish(c)
		case err != nil || said != saidState || o.sendState(c) != nil:
			return false
		}
	}
}

// yield confirms the hand-over to the successor, and reports whether that succeeded. If the
// successor has given up, the offer continues.
func (o *Offered) yield(c *net.UnixConn) bool {
	_ = c.SetDeadline(time.Now().Add(o.terms.step))
	_, err := c.Write([]byte(saidYours))
	if err == nil {
		closeAll(o.fds)
		return true
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.withdrawn || o.listen() != nil {
		closeAll(o.fds)
		return false
	}
	o.done = false
	return false
}

// give sends the sockets. It holds mu, so that the descriptors are not closed meanwhile; the
// message always fits into an empty queue, so it does not block.
func (o *Offered) give(c *net.UnixConn) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.done {
		return net.ErrClosed
	}
	_ = c.SetDeadline(time.Now().Add(o.terms.step))
	_, _, err := c.WriteMsgUnix([]byte(saidSockets), unix.UnixRights(o.fds...), nil)
	return err
}

// finish ends the offer, for the successor c unless that is nil, and reports whether it was
// still open. The name is free when it returns.
func (o *Offered) finish(c *net.UnixConn) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.done {
		return false
	}
	o.done = true
	close(o.over)
	_ = o.ln.Close()
	for other := range o.successors {
		if other != c {
			_ = other.Close()
		}
	}
	return true
}

// duplicates returns duplicates of the descriptors. The method File of a net.TCPListener would
// make the sockets blocking, in all processes that have them, and a blocking accept cannot be
// interrupted.
func duplicates(sockets []syscall.Conn) (fds []int, err error) {
	for _, s := range sockets {
		raw, err := s.SyscallConn()
		fd, dupErr := -1, error(nil)
		if err == nil {
			err = raw.Control(func(own uintptr) { fd, dupErr = unix.FcntlInt(own, unix.F_DUPFD_CLOEXEC, 0) })
		}
		if err = errors.Join(err, dupErr); err != nil {
			closeAll(fds)
			return nil, fmt.Errorf("duplicate a socket: %w", err)
		}
		fds = append(fds, fd)
	}
	return fds, nil
}

func closeAll(fds []int) {
	for _, fd := range fds {
		_ = unix.Close(fd)
	}
}
