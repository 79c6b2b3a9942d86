package chaos

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"time"

	"weir/bench/lab/rig"
	"weir/internal/net/http2"
)

// patience bounds every wait of a client.
const patience = 30 * time.Second

// endsOneIn: after one in so many batches the client half closes its connection and reads the
// answers.
const endsOneIn = 20

// A client sends batches of requests, over one connection after another.
//
// Owned by its goroutine.
type client struct {
	*run
	number   int
	mayLeave bool // may disconnect at any time
	http2    bool // uses HTTP/2, without tunnels
	asked    int  // requests so far
	r        *rand.Rand
	conn     net.Conn
	in       *bufio.Reader
	streams  *streams // of an HTTP/2 connection
	out      []byte
	tally    tally
}

// A tally counts what a client has read.
type tally struct {
	byStatus [600]int // answers read
	cut      int      // of those with 200, truncated as expected
	lost     int      // requests whose answers the client did not wait for
}

// talk plays a tunnel or a batch of at most n exchanges.
func (c *client) talk(n int) (err error) {
	if c.conn == nil {
		if err := c.connect(); err != nil {
			return err
		}
	}
	open, before := false, c.asked
	if !c.http2 && c.r.IntN(tunnelOneIn) == 0 {
		err = c.tunnel()
	} else {
		var batch [4]request
		requests := batch[:min(1+c.r.IntN(len(batch)), n)]
		for i := range requests {
			requests[i] = newRequest(c.r, c.number, c.asked)
			c.asked++
		}
		if c.http2 {
			open, err = c.exchangeStreams(requests)
		} else {
			open, err = c.exchange(requests)
		}
	}
	c.exchanges.Add(int64(c.asked - before))
	if err != nil {
		err = fmt.Errorf("client %d: %w", c.number, err)
	}
	if err != nil || !open || c.r.IntN(20) == 0 {
		c.hangUp()
	}
	return err
}

func (c *client) connect() (err error) {
	d := net.Dialer{Timeout: patience, LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 2, 0, byte(1+c.number))}}
	if c.conn, err = d.DialContext(c.ctx, "tcp", c.proxy.Addr); err != nil {
		return err
	}
	if c.in = bufio.NewReader(c.conn); c.http2 {
		c.streams = &streams{http2: http2.New(http2.Client, nil, time.Now())}
	}
	return nil
}

func (c *client) hangUp() {
	switch {
	case c.conn == nil:
	case c.r.IntN(2) == 0:
		rig.Reset(c.conn)
	default:
		_ = c.conn.Close()
	}
	c.conn = nil
}

// exchange sends a batch and reads the answers. open says whether the connection can be used
// again.
func (c *client) exchange(batch []request) (open bool, err error) {
	_ = c.conn.SetDeadline(time.Now().Add(patience))
	troubled := c.troubles()
	c.out = c.out[:0]
	for i := range batch {
		c.out = batch[i].append(c.out)
	}
	text, stay := c.out, len(batch)
	if c.mayLeave && c.r.IntN(10) == 0 {
		stay = c.r.IntN(len(batch))
		if stay == 0 {
			text = text[:c.r.IntN(len(text))]
		}
	}
	ends := stay == len(batch) && c.r.IntN(endsOneIn) == 0
	sent := make(chan error, 1)
	if len(text) > 32<<10 { // answers must be read meanwhile
		pieces := c.pieces(text)
		go func() { sent <- send(c.conn, pieces, 0, ends) }()
	} else {
		pause := time.Duration(0)
		if c.r.IntN(500) == 0 {
			pause = slowPiece
		}
		sent <- send(c.conn, c.pieces(text), pause, ends)
	}
	n := 0
	for open = true; n < stay && open; n++ {
		if open, err = c.read(&batch[n], troubled); err != nil {
			err = fmt.Errorf("%s %s: %w", batch[n].method, batch[n].target, err)
			break
		}
	}
	if err != nil || !open || stay < len(batch) {
		c.tally.lost += len(batch) - n
		open = false
		_ = c.conn.SetDeadline(time.Now()) // ends send
	}
	if e := <-sent; e != nil && open {
		err = fmt.Errorf("send: %w", e)
	}
	if ends && open && err == nil {
		open = false
		if b, e := c.in.ReadByte(); e != io.EOF {
			err = fmt.Errorf("after the last answer to a client that has half closed: %q, %w", b, e)
		}
	}
	return open, err
}

// troubles returns a function that reports whether a restart of the target may have had effects
// since this call.
func (c *client) troubles() func() bool {
	unsettled := func() bool { return time.Now().UnixNano() < c.target.settled.Load() }
	before, restarts := unsettled(), c.target.restarts.Load()
	return func() bool { return before || unsettled() || restarts != c.target.restarts.Load() }
}

func (c *client) pieces(text []byte) (pieces [][]byte) {
	for len(text) > 0 {
		n := len(text)
		if c.r.IntN(3) == 0 {
			n = min(n, 1+c.r.IntN(1500))
		}
		if len(pieces) == 16 {
			n = len(text)
		}
		pieces = append(pieces, text[:n])
		text = text[n:]
	}
	return pieces
}

// send sends pieces with pauses, and then half closes the connection if ends.
func send(c net.Conn, pieces [][]byte, pause time.Duration, ends bool) error {
	for _, p := range pieces {
		if _, err := c.Write(p); err != nil {
			return err
		}
		if pause > 0 {
			time.Sleep(pause)
		}
	}
	if ends {
		_ = c.(*net.TCPConn).CloseWrite()
	}
	return nil
}

// read reads and checks the answer to q. open says whether the connection can be used again.
func (c *client) read(q *request, troubled func() bool) (open bool, err error) {
	res, err := c.final(q.method)
	if err != nil {
		return false, err
	}
	body, err := io.ReadAll(res.Body)
	if res.StatusCode < len(c.tally.byStatus) {
		c.tally.byStatus[res.StatusCode]++
	}
	switch {
	case !q.may(res.StatusCode, troubled()):
		return false, c.judge(q, res.StatusCode, body, troubled)
	case err != nil && res.StatusCode == 200 && (q.cut || troubled()) && !errors.Is(err, os.ErrDeadlineExceeded):
		c.tally.cut++
		return false, nil
	case err != nil:
		return false, fmt.Errorf("the answer is truncated: %w", err)
	}
	return !res.Close, c.judge(q, res.StatusCode, body, troubled)
}

// final reads the head of the final answer, skipping interim ones.
func (c *client) final(method string) (*http.Response, error) {
	for {
		res, err := http.ReadResponse(c.in, &http.Request{Method: method})
		if err != nil {
			return nil, err
		}
		if res.StatusCode >= 200 || res.StatusCode == http.StatusSwitchingProtocols {
			return res, nil
		}
	}
}
