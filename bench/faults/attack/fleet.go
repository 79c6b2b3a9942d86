package attack

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"weir/bench/lab/rig"
	"weir/internal/net/http2"
)

// addresses is the number of addresses in 127.1.0.0/16 that attackers use.
const addresses = 250

// lateMax bounds the delay for which the fleet catches up.
const lateMax = 100 * time.Millisecond

// A fleet opens connections at a bounded rate and runs an attack on each.
//
// Safe for concurrent use: mu guards the tally.
type fleet struct {
	*attack
	addr string
	done sync.WaitGroup
	sent atomic.Uint64 // texts with a number

	mu sync.Mutex
	tally
}

// In the text of an attack, number becomes a number that no other request of the attack has, and
// own one that no other connection has, both in hexadecimal digits.
const (
	number = "{n}"
	own    = "{own}"
)

// A tally counts the connections of an attack and their answers.
type tally struct {
	opened  int
	refused int // failed connects
	open    int // now
	most    int // open at the same time
	strange int // answers that are not HTTP
	last    time.Time
	answers map[int]int // by status
	goAways map[http2.Code]int
}

func newFleet(a *attack, addr string) *fleet {
	return &fleet{attack: a, addr: addr, tally: tally{answers: make(map[int]int), goAways: make(map[http2.Code]int)}}
}

// open opens connections until opening ends. The attackers on them end with attackers at the
// latest.
func (f *fleet) open(opening, attackers context.Context) {
	each := time.Duration(float64(time.Second) / f.opens)
	for due := time.Now(); rig.Wait(opening, time.Until(due)) == nil; due = due.Add(each) {
		if f.enter() {
			f.done.Go(func() { f.one(attackers) })
		}
		if oldest := time.Now().Add(-lateMax); due.Before(oldest) {
			due = oldest
		}
	}
}

// enter counts a new connection and returns true, unless there are enough.
func (f *fleet) enter() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.tally.open >= f.conns {
		return false
	}
	f.tally.open++
	f.most = max(f.most, f.tally.open)
	return true
}

func (f *fleet) one(ctx context.Context) {
	defer f.count(func(t *tally) { t.open-- })
	d := net.Dialer{Timeout: 5 * time.Second,
		LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 1, 0, byte(1+rand.IntN(cmp.Or(f.from, addresses))))}}
	d.Control = func(_, _ string, raw syscall.RawConn) (err error) {
		_ = raw.Control(func(fd uintptr) {
			// The port is chosen at connect, when both addresses are known.
			err = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_BIND_ADDRESS_NO_PORT, 1)
			if f.small && err == nil {
				err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, 4096)
			}
		})
		return err
	}
	conn, err := d.DialContext(ctx, "tcp", f.addr)
	if err != nil {
		if ctx.Err() == nil {
			f.count(func(t *tally) { t.refused++ })
		}
		return
	}
	a := &attacker{Conn: conn, ctx: ctx, fleet: f}
	f.count(func(t *tally) {
		t.opened, t.last = t.opened+1, time.Now()
		a.text = strings.ReplaceAll(f.text, own, strconv.FormatInt(int64(t.opened), 16))
	})
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	defer conn.Close()
	a.request()
	if f.then != nil {
		f.then(a)
	}
}

func (f *fleet) count(change func(t *tally)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(&f.tally)
}

func (f *fleet) snapshot() tally {
	f.mu.Lock()
	defer f.mu.Unlock()
	t := f.tally
	t.answers, t.goAways = maps.Clone(f.answers), maps.Clone(f.goAways)
	return t
}

// An attacker is one connection of a fleet.
//
// Owned by its goroutine.
type attacker struct {
	net.Conn
	ctx   context.Context
	fleet *fleet
	text  string // with the number of the connection
	in    *bufio.Reader
}

// request sends the text of the attack and reports whether that succeeded.
func (a *attacker) request() bool {
	text := a.text
	if strings.Contains(text, number) {
		text = strings.ReplaceAll(text, number, strconv.FormatUint(a.fleet.sent.Add(1), 16))
	}
	_, err := io.WriteString(a.Conn, text)
	return err == nil
}

// say sends b and reports whether that succeeded.
func (a *attacker) say(b []byte) bool {
	_, err := a.Write(b)
	return err == nil
}

// drip sends text every everyPiece until the connection ends. It reads an answer meanwhile.
func (a *attacker) drip(text string) {
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		a.answer()
		_, _ = io.Copy(io.Discard, a.in)
	}()
	tick := time.NewTicker(everyPiece)
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

func (a *attacker) hold(d time.Duration) { _ = rig.Wait(a.ctx, d) }

// answer reads the first line of an answer and counts its status.
func (a *attacker) answer() {
	if a.in == nil {
		a.in = bufio.NewReaderSize(a, 512)
	}
	line, err := a.in.ReadSlice('\n')
	status := statusOf(line)
	a.fleet.count(func(t *tally) {
		switch {
		case status > 0:
			t.answers[status]++
		case len(line) > 0 && err == nil:
			t.strange++
		case errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET):
			t.answers[closedUnanswered]++
		}
	})
}

// statusOf returns the status in a status line; 0 if the line is invalid.
func statusOf(line []byte) int {
	rest, ok := bytes.CutPrefix(line, []byte("HTTP/1.1 "))
	if !ok || len(rest) < 3 {
		return 0
	}
	status, _ := strconv.Atoi(string(rest[:3]))
	return status
}

// closedUnanswered is the pseudo status of a connection that ended without an answer.
const closedUnanswered = 0

func (t *tally) summary() string {
	var words []string
	for _, status := range slices.Sorted(maps.Keys(t.answers)) {
		word := strconv.Itoa(status)
		if status == closedUnanswered {
			word = "closed"
		}
		words = append(words, fmt.Sprintf("%s×%d", word, t.answers[status]))
	}
	for _, code := range slices.Sorted(maps.Keys(t.goAways)) {
		words = append(words, fmt.Sprintf("%s×%d", code, t.goAways[code]))
	}
	if t.strange > 0 {
		words = append(words, fmt.Sprintf("no HTTP×%d", t.strange))
	}
	if words == nil {
		return "–"
	}
	return strings.Join(words, " ")
}

// repeat sends the text again after each answer and a pause, until the connection ends.
func (a *attacker) repeat(pause time.Duration) {
	for a.response() != nil {
		if a.hold(pause); !a.request() {
			return
		}
	}
}

// storeAndCancel has the request stored and cancels it, until the connection ends.
func (a *attacker) storeAndCancel() {
	const pause = 100 * time.Millisecond
	for {
		resp := a.response()
		if resp == nil {
			return
		}
		if at := resp.Header.Get("Location"); at != "" {
			if !a.say([]byte(message("DELETE "+at, a.claims()...))) || a.response() == nil {
				return
			}
		}
		if a.hold(pause); !a.request() {
			return
		}
	}
}

// claims returns the fields of the text that say who sends it.
func (a *attacker) claims() (fields []string) {
	for line := range strings.Lines(a.text) {
		if strings.HasPrefix(line, "X-") {
			fields = append(fields, strings.TrimSpace(line))
		}
	}
	return fields
}

// abort resets the connection before the answer.
func (a *attacker) abort() {
	a.hold(5 * time.Millisecond)
	rig.Reset(a.Conn)
}

// response reads a whole answer and counts its status. It returns nil if the connection ends.
func (a *attacker) response() *http.Response {
	if a.in == nil {
		a.in = bufio.NewReader(a)
	}
	resp, err := http.ReadResponse(a.in, nil)
	if err == nil {
		_, err = io.Copy(io.Discard, resp.Body)
	}
	if a.ctx.Err() != nil {
		return nil
	}
	a.fleet.count(func(t *tally) {
		if err != nil {
			t.answers[closedUnanswered]++
			return
		}
		t.answers[resp.StatusCode]++
	})
	if err != nil || resp.Close {
		return nil
	}
	return resp
}

// sip reads 512 bytes every second until the connection ends.
func (a *attacker) sip() {
	for a.ctx.Err() == nil {
		if _, err := io.CopyN(io.Discard, a, 512); err != nil {
			return
		}
		a.hold(time.Second)
	}
}
