package handover

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"weir/internal/program/service"
)

// The messages of the protocol, one packet each. The successor gets the sockets, may request
// the state, says that it is ready, and gets a confirmation. An older process closes the
// connection when its state is requested; then the successor connects again and requests
// only the sockets.
const (
	saidSockets = "weir handover 1: sockets"
	saidState   = "state" // the request, and the answer with a file
	saidReady   = "ready"
	saidYours   = "yours"
)

const (
	// network preserves packets, and reports the end of either process.
	network = "unixpacket"
	// socketsMax bounds the sockets of an offer, and successorsMax the successors that
	// prepare at the same time: one that hangs must not block the next.
	socketsMax    = 16
	successorsMax = 8
	// stateMax bounds the state, in bytes. A larger one is not sent.
	stateMax = 16 << 20
	// readyMax bounds how long a successor may prepare, and stepMax every other wait for
	// the other side.
	stepMax  = 5 * time.Second
	readyMax = time.Minute
)

// terms are the conditions of one side.
type terms struct {
	uid         uint32 // user of this process, and of the other one
	step, ready time.Duration
}

func usual() terms { return terms{uid: uint32(os.Geteuid()), step: stepMax, ready: readyMax} }

// Name returns the name for the proxy that listens on port. Like ports, names are separate in
// each network namespace.
func Name(port int) string { return "weir/proxy/" + strconv.Itoa(port) }

// address returns an abstract address (unix(7)), so that a killed process leaves no file.
func address(name string) *net.UnixAddr { return &net.UnixAddr{Name: "@" + name, Net: network} }

// sameUser checks that the other side is a process of the user, as reported by the kernel
// (unix(7), SO_PEERCRED). The error is ErrHeldByOther if it is not.
func sameUser(c *net.UnixConn, uid uint32) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var cred *unix.Ucred
	var credErr error
	err = raw.Control(func(fd uintptr) {
		cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET,
			unix.SO_PEERCRED)
	})
	if err = errors.Join(err, credErr); err != nil {
		return fmt.Errorf("ask whose process it is: %w", err)
	}
	if !service.SameUser(cred.Uid, uid) {
		return fmt.Errorf("%w: process %d is user %d's, this one is %s", ErrHeldByOther, cred.Pid, cred.Uid, whose(uid))
	}
	return nil
}

// whose says in an error which user a process has.
func whose(uid uint32) string {
	said := fmt.Sprintf("user %d's", uid)
	if !service.SameUser(uid, uid) {
		said += ", an id that may be any user's"
	}
	return said
}

// receive reads one packet.
func receive(c *net.UnixConn) (string, error) {
	b := make([]byte, 64)
	n, err := c.Read(b)
	if err == nil && n == 0 {
		err = io.EOF
	}
	return string(b[:n]), err
}

// receiveFiles reads the packet with the given message, and its descriptors.
func receiveFiles(c *net.UnixConn, message string) ([]int, error) {
	b, rights := make([]byte, 64), make([]byte, unix.CmsgSpace(4*socketsMax))
	n, m, flags, _, err := c.ReadMsgUnix(b, rights)
	if err == nil && n == 0 {
		err = io.EOF
	}
	if err != nil {
		return nil, err
	}
	fds, err := descriptors(rights[:m])
	switch {
	case err != nil:
	case string(b[:n]) != message:
		err = fmt.Errorf("it said %q, not %q", b[:n], message)
	case flags&(unix.MSG_CTRUNC|unix.MSG_TRUNC) != 0 || len(fds) == 0:
		err = fmt.Errorf("it sent %d sockets, 1 to %d are allowed", len(fds), socketsMax)
	default:
		return fds, nil
	}
	closeAll(fds)
	return nil, err
}

// descriptors returns the descriptors of a packet, with close-on-exec set.
func descriptors(b []byte) (fds []int, err error) {
	messages, err := unix.ParseSocketControlMessage(b)
	for i := range messages {
		some, rightsErr := unix.ParseUnixRights(&messages[i])
		fds, err = append(fds, some...), errors.Join(err, rightsErr)
	}
	for _, fd := range fds {
		syscall.CloseOnExec(fd)
	}
	return fds, err
}

// sendState sends a successor the state, as a file in memory (memfd_create(2)), since it may
// exceed a packet.
func (o *Offered) sendState(c *net.UnixConn) error {
	var state []byte
	if o.state != nil {
		state = o.state()
	}
	if len(state) > stateMax {
		state = nil
	}
	fd, err := unix.MemfdCreate("weir state", unix.MFD_CLOEXEC)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), "state")
	defer f.Close()
	if _, err := f.Write(state); err != nil {
		return err
	}
	_, _, err = c.WriteMsgUnix([]byte(saidState), unix.UnixRights(fd), nil)
	return err
}

// requestState requests the state.
func requestState(c *net.UnixConn) ([]byte, error) {
	if _, err := c.Write([]byte(saidState)); err != nil {
		return nil, err
	}
	fds, err := receiveFiles(c, saidState)
	if err != nil {
		return nil, err
	}
	defer closeAll(fds[1:])
	f := os.NewFile(uintptr(fds[0]), "state")
	defer f.Close()
	state, err := io.ReadAll(io.NewSectionReader(f, 0, stateMax+1))
	if err == nil && len(state) > stateMax {
		err = fmt.Errorf("its state has more than %d bytes", stateMax)
	}
	return state, err
}
