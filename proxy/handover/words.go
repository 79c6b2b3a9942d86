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
)

// What is said, one packet each: the sockets go to the successor, which may ask
// for the state, says when it is ready, and is told that all is its own. An older
// process hangs up when it is asked for its state; then the successor comes again
// and asks for the sockets only.
const (
	saidSockets = "weir handover 1: sockets"
	saidState   = "state" // the question, and the answer, with a file
	saidReady   = "ready"
	saidYours   = "yours"
)

const (
	// network keeps packets apart, and reports the end of either process.
	network = "unixpacket"
	// socketsMax bounds the sockets of an offer, successorsMax the successors
	// that prepare at a time: a stuck one does not keep the next one out.
	socketsMax    = 16
	successorsMax = 8
	// stateMax bounds the state, in bytes. Beyond there is none.
	stateMax = 16 << 20
	// stepMax bounds every wait for the other side but readyMax, which is how
	// long a successor may prepare.
	stepMax  = 5 * time.Second
	readyMax = time.Minute
)

// terms are what a side insists on.
type terms struct {
	uid         int // whose process the other side must be
	step, ready time.Duration
}

func usual() terms { return terms{uid: os.Geteuid(), step: stepMax, ready: readyMax} }

// Name is the name for the proxy that listens on port. Like ports, names are
// apart in each network namespace.
func Name(port int) string { return "weir/proxy/" + strconv.Itoa(port) }

// address is an abstract one (unix(7)): no file is left behind by a process
// that died.
func address(name string) *net.UnixAddr { return &net.UnixAddr{Name: "@" + name, Net: network} }

// sameUser makes sure that the other side is a process of the user. The kernel
// says so, not the process (unix(7), SO_PEERCRED).
func sameUser(c *net.UnixConn, uid int) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var cred *unix.Ucred
	var credErr error
	err = raw.Control(func(fd uintptr) { cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	if err = errors.Join(err, credErr); err != nil {
		return fmt.Errorf("ask whose process it is: %w", err)
	}
	if int64(cred.Uid) != int64(uid) {
		return fmt.Errorf("process %d is user %d's, not %d's", cred.Pid, cred.Uid, uid)
	}
	return nil
}

// hear reads one packet.
func hear(c *net.UnixConn) (string, error) {
	b := make([]byte, 64)
	n, err := c.Read(b)
	if err == nil && n == 0 {
		err = io.EOF
	}
	return string(b[:n]), err
}

// hearFiles reads the packet that says what it carries.
func hearFiles(c *net.UnixConn, what string) ([]int, error) {
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
	case string(b[:n]) != what:
		err = fmt.Errorf("it said %q, not %q", b[:n], what)
	case flags&(unix.MSG_CTRUNC|unix.MSG_TRUNC) != 0 || len(fds) == 0:
		err = fmt.Errorf("it sent %d sockets, 1 to %d are allowed", len(fds), socketsMax)
	default:
		return fds, nil
	}
	closeAll(fds)
	return nil, err
}

// descriptors are those that came with a packet, closed on exec.
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
