package service

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"
)

// overflowUser is what the kernel reports for users unknown in the user namespace of this
// process (user_namespaces(7)).
const overflowUser = 65534

// SameUser reports whether user, as the kernel reports it of another process, is own, the user
// of this program. An id that stands for all unknown users is nobody's: two processes that
// have it need not belong to one user.
func SameUser(user, own uint32) bool { return user == own && user != overflowUser }

// ownerTimeout bounds the wait for the kernel's answer, which normally comes at once.
const ownerTimeout = time.Second

// The layout of a request and its answer over a SOCK_DIAG socket: see linux/inet_diag.h.
// Offsets count from the start of the message; ports and addresses are in network byte
// order.
const (
	diagHeader = unix.SizeofNlMsghdr
	// struct inet_diag_req_v2
	diagFamily   = diagHeader
	diagProtocol = diagHeader + 1
	diagStates   = diagHeader + 4
	diagID       = diagHeader + 8
	diagRequest  = diagID + 48
	// struct inet_diag_sockid, from its start
	idSource, idDestination  = 4, 20
	idSourcePort, idDestPort = 0, 2
	idCookie                 = 40
	// struct inet_diag_msg
	diagState  = diagHeader + 1
	diagUser   = diagHeader + 64
	diagInode  = diagHeader + 68
	diagAnswer = diagHeader + 72
)

var errNoSocket = errors.New("no process has it open")

// socketOwner returns the user that owns the socket at the other end of a TCP connection
// between two addresses of this machine: peer is that socket's address, own is ours. It
// asks the kernel for this one socket, which takes the same time however many sockets
// there are.
func socketOwner(peer, own netip.AddrPort) (user uint32, err error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return 0, fmt.Errorf("open a netlink socket: %w", err)
	}
	defer unix.Close(fd)
	timeout := unix.NsecToTimeval(int64(ownerTimeout))
	if err = unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &timeout); err != nil {
		return 0, fmt.Errorf("set the timeout: %w", err)
	}
	if err = unix.Sendto(fd, diagQuestion(peer, own), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return 0, fmt.Errorf("ask the kernel: %w", err)
	}
	b := make([]byte, 4096)
	n, _, err := unix.Recvfrom(fd, b, 0)
	if err != nil {
		return 0, fmt.Errorf("read the kernel's answer: %w", err)
	}
	return readOwner(b[:n])
}

// diagQuestion returns the request for the socket with address peer that is connected to
// own.
func diagQuestion(peer, own netip.AddrPort) []byte {
	b := make([]byte, diagRequest)
	host := binary.NativeEndian
	host.PutUint32(b, diagRequest)
	host.PutUint16(b[4:], unix.SOCK_DIAG_BY_FAMILY)
	host.PutUint16(b[6:], unix.NLM_F_REQUEST)
	from, to := peer.Addr().Unmap(), own.Addr().Unmap()
	b[diagFamily] = unix.AF_INET
	if from.Is6() {
		b[diagFamily] = unix.AF_INET6
	}
	b[diagProtocol] = unix.IPPROTO_TCP
	host.PutUint32(b[diagStates:], ^uint32(0))
	id := b[diagID:]
	binary.BigEndian.PutUint16(id[idSourcePort:], peer.Port())
	binary.BigEndian.PutUint16(id[idDestPort:], own.Port())
	copy(id[idSource:], from.AsSlice())
	copy(id[idDestination:], to.AsSlice())
	host.PutUint64(id[idCookie:], ^uint64(0)) // any
	return b
}

// readOwner parses the kernel's answer. A socket that its process has closed, and one in
// TIME_WAIT, are reported with user 0, root, and without an inode: their owner is
// unknown. A listening socket is not the one that was asked for.
func readOwner(b []byte) (user uint32, err error) {
	host := binary.NativeEndian
	switch {
	case len(b) >= diagHeader+4 && host.Uint16(b[4:]) == unix.NLMSG_ERROR:
		errno := unix.Errno(-int32(host.Uint32(b[diagHeader:])))
		if errno == unix.ENOENT {
			return 0, errNoSocket
		}
		return 0, fmt.Errorf("ask the kernel: %w", errno)
	case len(b) < diagAnswer || host.Uint16(b[4:]) != unix.SOCK_DIAG_BY_FAMILY:
		return 0, errors.New("the kernel's answer cannot be read")
	case b[diagState] == unix.BPF_TCP_LISTEN || host.Uint32(b[diagInode:]) == 0:
		return 0, errNoSocket
	}
	return host.Uint32(b[diagUser:]), nil
}
