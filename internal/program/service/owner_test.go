package service

import (
	"encoding/binary"
	"testing"
)

// diagReply is the kernel's answer about a socket.
func diagReply(state byte, user, inode uint32) []byte {
	b := make([]byte, diagAnswer)
	host := binary.NativeEndian
	host.PutUint32(b, diagAnswer)
	host.PutUint16(b[4:], 20) // SOCK_DIAG_BY_FAMILY
	b[diagState] = state
	host.PutUint32(b[diagUser:], user)
	host.PutUint32(b[diagInode:], inode)
	return b
}

func TestReadOwner(t *testing.T) {
	const established, finWait2, timeWait, listen = 1, 5, 6, 10
	failure := make([]byte, diagHeader+20)
	binary.NativeEndian.PutUint16(failure[4:], 2) // NLMSG_ERROR
	for _, test := range []struct {
		name   string
		answer []byte
		user   uint32
		known  bool
	}{
		{"open", diagReply(established, 33, 7), 33, true},
		{"open, root's", diagReply(established, 0, 7), 0, true},
		{"half closed", diagReply(finWait2, 33, 7), 33, true},
		{"left by its process", diagReply(finWait2, 0, 0), 0, false},
		{"over", diagReply(timeWait, 0, 0), 0, false},
		{"listening", diagReply(listen, 0, 7), 0, false},
		{"cut", diagReply(established, 0, 7)[:diagAnswer-1], 0, false},
		{"a failure", failure, 0, false},
		{"nothing", nil, 0, false},
	} {
		if user, err := readOwner(test.answer); (err == nil) != test.known || user != test.user {
			t.Errorf("%s: user %d, %v", test.name, user, err)
		}
	}
}

// Whatever the kernel says, only a socket that a process holds has an owner.
func FuzzReadOwner(f *testing.F) {
	f.Add(diagReply(1, 33, 7))
	f.Add(diagReply(6, 0, 0))
	f.Fuzz(func(t *testing.T, b []byte) {
		user, err := readOwner(b)
		if err == nil && binary.NativeEndian.Uint32(b[diagInode:]) == 0 || err != nil && user != 0 {
			t.Errorf("%x: user %d, %v", b, user, err)
		}
	})
}
