package attack

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// addresses is over how many of 127.1.0.0/16 the attackers are spread.
const addresses = 250

// openStep is how often connections are opened. Their number per step is
// bounded, so an attack that fell behind does not catch up in one blow.
const openStep = 10 * time.Millisecond

// lateMax bounds the time for which openings are made up for.
const lateMax = 100 * time.Millisecond

// A crowd opens connections at a bounded rate and plays an attack on each.
//
// Safe for concurrent use: mu guards the tally.
type crowd struct {
	*attack
	addr string
	done sync.WaitGroup

	mu sync.Mutex
	tally
}

// A tally is what came of an attack.
type tally struct {
	opened  int
	refused int // by the kernel: connect failed
	open    int // now, by us
	most    int // open at the same time
	strange int // what was no answer at all
	last    time.Time
	answers map[int]int // by status
}

func newCrowd(a *attack, addr string) *crowd {
	return &crowd{attack: a, addr: addr, tally: tally{answers: make(map[int]int)}}
}

// open opens connections until opening ends. What is played on them ends with
// attackers, at the latest.
func (c *crowd) open(opening, attackers context.Context) {
	tick := time.NewTicker(openStep)
	defer tick.Stop()
	last, owed := time.Now(), 1.0
	for {
		select {
		case <-opening.Done():
			return
		case now := <-tick.C:
			owed += c.opens * min(now.Sub(last), lateMax).Seconds()
			last = now
		}
		for ; owed >= 1 && c.enter(); owed-- {
			c.done.Go(func() { c.one(attackers) })
		}
		owed = min(owed, 1+c.opens*lateMax.Seconds())
	}
}

// enter counts a connection in unless there are enough.
func (c *crowd) enter() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.tally.open >= c.conns {
		return false
	}
	c.tally.open++
	c.most = max(c.most, c.tally.open)
	return true
}

// one is the life of one connection.
func (c *crowd) one(ctx context.Context) {
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.tally.open--
	}()
	d := net.Dialer{Timeout: 5 * time.Second, LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 1, 0, byte(1+rand.IntN(addresses)))}}
	d.Control = func(_, _ string, raw syscall.RawConn) (err error) {
		_ = raw.Control(func(fd uintptr) {
			// The port is chosen at connect, when both addresses are known.
			err = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_BIND_ADDRESS_NO_PORT, 1)
			if c.small && err == nil {
				err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, 4096)
			}
		})
		return err
	}
	conn, err := d.DialContext(ctx, "tcp", c.addr)
	c.mu.Lock()
	if err != nil {
		if ctx.Err() == nil {
			c.refused++
		}
		c.mu.Unlock()
		return
	}
	c.opened++
	c.last = time.Now()
	c.mu.Unlock()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	defer conn.Close()
	c.play(&attacker{Conn: conn, ctx: ctx, crowd: c})
}

// snapshot is the tally now.
func (c *crowd) snapshot() tally {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.tally
	t.answers = maps.Clone(c.answers)
	return t
}

// An attacker is one connection of a crowd.
//
// Owned by its goroutine.
type attacker struct {
	net.Conn
	ctx   context.Context
	crowd *crowd
	in    *bufio.Reader
}

// say sends, and reports whether the other side still takes it.
func (a *attacker) say(b []byte) bool {
	_, err := a.Write(b)
	return err == nil
}

// drip sends a letter now and then until the connection ends. What the proxy
// says meanwhile is its answer.
func (a *attacker) drip(text string, each time.Duration) {
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		a.answer()
		_, _ = io.Copy(io.Discard, a.in)
	}()
	tick := time.NewTicker(each)
	defer tick.Stop()
	for {
		select {
		case <-gone:
			return
		case <-tick.C:
			if !a.say([]byte(text)) {
				_ = a.Close()
				<-gone
				return
			}
		}
	}
}

// hold does nothing for d.
func (a *attacker) hold(d time.Duration) {
	select {
	case <-time.After(d):
	case <-a.ctx.Done():
	}
}

// answer reads the first line of an answer and notes its status.
func (a *attacker) answer() {
	if a.in == nil {
		a.in = bufio.NewReaderSize(a, 512)
	}
	line, err := a.in.ReadSlice('\n')
	status := statusOf(line)
	a.crowd.mu.Lock()
	defer a.crowd.mu.Unlock()
	switch {
	case status > 0:
		a.crowd.answers[status]++
	case len(line) > 0 && err == nil:
		a.crowd.strange++
	case errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET):
		a.crowd.answers[closedUnanswered]++
	}
}

// ended reads until the proxy closes.
func (a *attacker) ended() { _, _ = io.Copy(io.Discard, a.in) }

// closedUnanswered stands among the statuses for a connection that ended
// without an answer.
const closedUnanswered = 0

// told is the answers in words, by status.
func (t *tally) told() string {
	var words []string
	for _, status := range slices.Sorted(maps.Keys(t.answers)) {
		word := strconv.Itoa(status)
		if status == closedUnanswered {
			word = "closed"
		}
		words = append(words, fmt.Sprintf("%s×%d", word, t.answers[status]))
	}
	if t.strange > 0 {
		words = append(words, fmt.Sprintf("no HTTP×%d", t.strange))
	}
	if words == nil {
		return "–"
	}
	return strings.Join(words, " ")
}

// sip reads n bytes now and then until the connection ends.
func (a *attacker) sip(n int64, each time.Duration) {
	for a.ctx.Err() == nil {
		if _, err := io.CopyN(io.Discard, a, n); err != nil {
			return
		}
		a.hold(each)
	}
}
