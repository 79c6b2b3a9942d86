package chaos

import (
	"bufio"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"net/http"
	"time"

	"golang.org/x/sys/unix"

	"weir/bench/lab/rig"
)

const (
	tunnelOneIn = 100 // one in so many batches of a client is replaced by a tunnel
	// tunnelBytes bounds what is sent through a tunnel, floodBytes what is sent into one that is
	// not read: more than kernels and proxy buffer.
	tunnelBytes = 200 << 10
	floodBytes  = 5 << 20
	// stallMax is how long the target does not read: longer than the proxy's WRITE_TIMEOUT, which
	// ends the tunnel.
	stallMax = 10 * time.Second
)

// tunnel opens a tunnel and ends it in one of several ways. It is the connection's last
// exchange.
func (c *client) tunnel() error {
	_ = c.conn.SetDeadline(time.Now().Add(patience))
	troubled := c.troubles()
	behaviour, end := "echoes", c.echoed
	switch c.r.IntN(3) {
	case 0:
		end = c.abandoned
	case 1:
		behaviour, end = "stalls", c.flooded
	}
	path := fmt.Sprintf("/%s/%d/%d", behaviour, c.number, c.asked)
	c.asked++
	_, _ = fmt.Fprintf(c.conn, "GET %s HTTP/1.1\r\nHost: chaos\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n", path)
	res, err := c.final("GET")
	if err == nil {
		c.tally.byStatus[res.StatusCode]++
		if res.StatusCode == http.StatusSwitchingProtocols {
			err = end()
		} else if q := (request{statuses: []int{501}}); !q.may(res.StatusCode, troubled()) { // there is none by HTTP/2
			err = fmt.Errorf("answered %d", res.StatusCode)
		}
	}
	if err != nil && !troubled() {
		return fmt.Errorf("GET %s: %w", path, err)
	}
	return nil
}

// echoed sends data, half closes and expects the data back.
func (c *client) echoed() error {
	b := c.noise(c.r.IntN(tunnelBytes))
	pieces, sent := c.pieces(b), make(chan error, 1)
	go func() { sent <- send(c.conn, pieces, 0, true) }()
	got, err := io.ReadAll(c.in)
	if e := <-sent; err == nil {
		err = e
	}
	if err == nil && (len(got) != len(b) || crc32.ChecksumIEEE(got) != crc32.ChecksumIEEE(b)) {
		err = fmt.Errorf("%d bytes were sent and %d came back, or their content differs", len(b), len(got))
	}
	return err
}

func (c *client) abandoned() error {
	_ = send(c.conn, c.pieces(c.noise(c.r.IntN(tunnelBytes))), 0, c.r.IntN(2) == 0)
	return nil
}

// flooded sends into a tunnel that the target does not read, half closes and resets. The proxy
// has stopped reading from the client and cannot notice that.
func (c *client) flooded() error {
	piece := c.noise(16 << 10)
	_ = c.conn.SetWriteDeadline(time.Now().Add(time.Second))
	for left := c.r.IntN(floodBytes); left > 0; left -= len(piece) {
		if _, err := c.conn.Write(piece); err != nil {
			break
		}
	}
	tc := c.conn.(*net.TCPConn)
	_ = tc.CloseWrite()
	for range 50 {
		if received(tc) {
			break
		}
		time.Sleep(slowPiece)
	}
	rig.Reset(tc)
	return nil
}

// received reports whether the proxy's kernel has acknowledged all data.
func received(c *net.TCPConn) (all bool) {
	raw, err := c.SyscallConn()
	if err != nil {
		return true
	}
	err = raw.Control(func(fd uintptr) {
		unsent, err := unix.IoctlGetInt(int(fd), unix.TIOCOUTQ)
		all = err != nil || unsent <= 1 // 1: the FIN
	})
	return all || err != nil
}

func (c *client) noise(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(c.r.Uint32())
	}
	return b
}

// switched serves the target's end of a tunnel.
func (t *target) switched(c net.Conn, in *bufio.Reader, behaviour string) {
	if _, err := io.WriteString(c,
		"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n"); err != nil {
		return
	}
	if behaviour == "echoes" {
		_, _ = io.Copy(c, in)
		return
	}
	_ = c.(*net.TCPConn).SetReadBuffer(4 << 10)
	for end := time.Now().Add(stallMax); time.Now().Before(end); time.Sleep(10 * slowPiece) {
		if c.SetDeadline(time.Time{}) != nil {
			return // a restart has closed it
		}
	}
}
