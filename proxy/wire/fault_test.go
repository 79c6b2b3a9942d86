package wire

import (
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"testing"

	"weir/internal/loop"
	"weir/proxy/exchange"
)

// A dial that fails for want of something here says nothing about the target.
func TestDialFault(t *testing.T) {
	for err, want := range map[error]exchange.Fault{
		syscall.ECONNREFUSED:   exchange.FaultRefused,
		syscall.EHOSTUNREACH:   exchange.FaultConnect,
		os.ErrDeadlineExceeded: exchange.FaultConnectTime,
		io.EOF:                 exchange.FaultConnect,
		loop.ErrDialsBusy:      exchange.FaultBusy,
		syscall.EMFILE:         exchange.FaultBusy,
		syscall.ENFILE:         exchange.FaultBusy,
		syscall.EADDRNOTAVAIL:  exchange.FaultBusy,
	} {
		if got := dialFault(fmt.Errorf("dial: %w", &net.OpError{Op: "dial", Err: err})); got != want {
			t.Errorf("%v: %v, want %v", err, got, want)
		}
	}
}
