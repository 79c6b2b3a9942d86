package handover

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// ErrNoOffer means that no process offers its sockets under the name.
var ErrNoOffer = errors.New("no process offers its sockets")

// ErrHeldByOther means that the name is held by a process of another user, or by one that is no
// proxy, so there are no sockets to take. Any user of the machine can hold a name.
var ErrHeldByOther = errors.New("the name is not held by a proxy of this user")

// A Received is what a successor has received: the sockets, on which the running process also
// accepts until Ready.
//
// Owned by its caller.
type Received struct {
	// Sockets are in the order of the offer; their addresses identify them. They belong to the
	// caller after Ready.
	Sockets []net.Listener
	// State is that of the running process (see Offer). It is empty if there is none, or
	// if that process is of an older version.
	State []byte

	name  string
	terms terms
	conn  *net.UnixConn
}

// Receive requests the sockets from the process that offers them under name, until ctx
// ends, and for a few seconds at most. The error is ErrNoOffer if there is none, and
// ErrHeldByOther if the process that has the name is not one to take sockets from.
func Receive(ctx context.Context, name string) (*Received, error) {
	return take(ctx, name, usual())
}

func take(ctx context.Context, name string, t terms) (*Received, error) {
	taken := &Received{name: name, terms: t}
	err := taken.ask(ctx)
	switch {
	case errors.Is(err, unix.ECONNREFUSED):
		err = ErrNoOffer
	case err != nil && ctx.Err() != nil:
		err = ctx.Err()
	}
	if err != nil {
		taken.Close()
		return nil, fmt.Errorf("take sockets over as %s: %w", name, err)
	}
	return taken, nil
}

func (r *Received) ask(ctx context.Context) error {
	err := r.askFor(ctx, true)
	if r.Sockets == nil || err == nil {
		return err
	}
	r.Close() // an older process closes the connection at this request
	r.Sockets = nil
	return r.askFor(ctx, false)
}

// askFor requests the sockets, and the state if that is wanted too.
func (r *Received) askFor(ctx context.Context, state bool) error {
	ctx, cancel := context.WithTimeout(ctx, r.terms.step)
	defer cancel()
	c, err := new(net.Dialer).DialContext(ctx, network, address(r.name).Name)
	if err != nil && ctx.Err() == nil && !errors.Is(err, unix.ECONNREFUSED) {
		err = fmt.Errorf("%w: %w", ErrHeldByOther, err) // usually one that accepts nothing
	}
	if err != nil {
		return err
	}
	r.conn = c.(*net.UnixConn)
	stop := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if err := sameUser(r.conn, r.terms.uid); err != nil {
		return err
	}
	fds, err := receiveFiles(r.conn, saidSockets)
	if err != nil {
		return err
	}
	if r.Sockets, err = listeners(fds); err == nil && state {
		r.State, err = requestState(r.conn)
	}
	return err
}

// Ready tells the running process to stop accepting and to drain. Without an error, the
// sockets belong to the caller alone, and the name is free for an offer. With an error, the
// running process continues, or another successor was first, and the caller must Close.
func (r *Received) Ready() error {
	_ = r.conn.SetDeadline(time.Now().Add(r.terms.step))
	_, err := r.conn.Write([]byte(saidReady))
	if err == nil {
		var said string
		if said, err = receive(r.conn); err == nil && said != saidYours {
			err = fmt.Errorf("it said %q", said)
		}
	}
	if err != nil {
		return fmt.Errorf("take sockets over as %s: the process that has them did not let go: %w", r.name, err)
	}
	_ = r.conn.Close()
	r.conn = nil
	return nil
}

// Close closes the sockets, unless Ready has succeeded. The running process continues.
func (r *Received) Close() {
	if r == nil || r.conn == nil {
		return
	}
	_ = r.conn.Close()
	r.conn = nil
	for _, ln := range r.Sockets {
		_ = ln.Close()
	}
}

// listeners returns a net.Listener for each of the descriptors, and closes these.
func listeners(fds []int) (all []net.Listener, err error) {
	for i, fd := range fds {
		f := os.NewFile(uintptr(fd), fmt.Sprintf("socket %d", i+1))
		defer f.Close() // net has a duplicate
		if err != nil {
			continue
		}
		var ln net.Listener
		if n, _ := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ACCEPTCONN); n == 0 {
			err = fmt.Errorf("socket %d does not listen", i+1)
		} else if ln, err = net.FileListener(f); err == nil {
			all = append(all, ln)
		}
	}
	if err == nil {
		return all, nil
	}
	for _, ln := range all {
		_ = ln.Close()
	}
	return nil, err
}
