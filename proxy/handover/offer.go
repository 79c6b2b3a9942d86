package handover

import (
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// acceptPause is the wait after a failed accept, for want of descriptors above
// all.
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
	over       chan struct{} // closed when nobody is let in any more
	done       bool          // given away, or withdrawn
	withdrawn  bool
	fds        []int
	successors map[*net.UnixConn]bool
}

// Offer lets one successor under the same user take the sockets, which it
// duplicates, until Close. state, unless nil, returns what a successor is to know,
// at most 16 MiB; it is called on goroutines of the offer's own. taken is called once,
// on a goroutine of its own, when a successor is ready: from then on this process
// stops accepting and finishes what it has. By then the name is free again.
func Offer(name string, sockets []*os.File, state func() []byte, taken func()) (*Offered, error) {
	o := &Offered{name: name, state: state, taken: taken, terms: usual()}
	if err := o.begin(sockets); err != nil {
		return nil, err
	}
	return o, nil
}

// begin opens the offer.
func (o *Offered) begin(sockets []*os.File) error {
	if len(sockets) == 0 || len(sockets) > socketsMax {
		return fmt.Errorf("offer sockets as %s: there are %d, 1 to %d are allowed", o.name, len(sockets), socketsMax)
	}
	fds, err := duplicates(sockets)
	if err != nil {
		return fmt.Errorf("offer sockets as %s: %w", o.name, err)
	}
	o.fds, o.successors = fds, make(map[*net.UnixConn]bool)
	if err := o.listen(); err != nil {
		closeAll(fds)
		return fmt.Errorf("offer sockets as %s: %w", o.name, err)
	}
	return nil
}

// Close withdraws the offer. It does nothing when the sockets were taken.
func (o *Offered) Close() {
	o.mu.Lock()
	o.withdrawn = true
	o.mu.Unlock()
	if o.finish(nil) {
		o.ended.Wait()
		closeAll(o.fds)
	}
}

// listen lets successors in. o is not shared yet, or mu is held.
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

// enter lets a successor in, unless there are enough.
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

// serve sees one successor through; whatever goes wrong with it ends it, not
// the offer.
func (o *Offered) serve(c *net.UnixConn) {
	won := o.prepare(c) && o.yield(c)
	o.leave(c)
	o.ended.Done()
	if won {
		o.taken()
	}
}

// prepare gives the sockets to a successor and reports whether it was the
// first to be ready.
func (o *Offered) prepare(c *net.UnixConn) bool {
	if sameUser(c, o.terms.uid) != nil || o.give(c) != nil {
		return false
	}
	_ = c.SetDeadline(time.Now().Add(o.terms.ready))
	for {
		said, err := hear(c)
		switch {
		case err == nil && said == saidReady:
			return o.finish(c)
		case err != nil || said != saidState || o.tellState(c) != nil:
			return false
		}
	}
}

// tellState sends a successor the state.
func (o *Offered) tellState(c *net.UnixConn) error {
	var state []byte
	if o.state != nil {
		state = o.state()
	}
	return tellState(c, state)
}

// yield hands everything over to the successor, and reports whether it was received.
// One that has given up at the last moment leaves the offer as it was.
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

// give sends the sockets. The message always fits into an empty queue, so
// holding mu, without which the descriptors might be closed, keeps nobody.
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

// finish ends the offer in favour of c, or of nobody, and reports whether it
// was still to be had. The name is free when it returns.
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

// duplicates of the descriptors. os.File.Fd is no way to them: it may make the
// sockets blocking ones, for everybody who has them.
func duplicates(sockets []*os.File) (fds []int, err error) {
	for _, f := range sockets {
		raw, err := f.SyscallConn()
		fd, dupErr := -1, error(nil)
		if err == nil {
			err = raw.Control(func(own uintptr) { fd, dupErr = unix.FcntlInt(own, unix.F_DUPFD_CLOEXEC, 0) })
		}
		if err = errors.Join(err, dupErr); err != nil {
			closeAll(fds)
			return nil, fmt.Errorf("duplicate %s: %w", f.Name(), err)
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
