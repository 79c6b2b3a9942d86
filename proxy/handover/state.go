package handover

import (
	"fmt"
	"io"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// The state is sent as a file in memory (memfd_create(2)), since it may exceed a packet.

// sendState sends a successor the state.
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
