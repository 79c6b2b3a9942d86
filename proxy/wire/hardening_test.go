package wire

import (
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir/internal/net/loop"
	"weir/internal/test/testkit"
)

// Of an attack: how many clients make it at a time, and the heap that each may
// take at its peak, what is dead and not collected yet included.
const (
	attackers    = 40
	attackerHeap = 1 << 20
)

// attacks are what clients may do, and what they are told before they are
// closed; 0: nothing.
var attacks = []struct {
	name     string
	env      []string
	attack   func(w io.Writer)
	statuses []int
}{
	{"a target of 100 kB", nil, sends("GET /" + strings.Repeat("a", 100_000) + " HTTP/1.1\r\nHost: x\r\n\r\n"),
		[]int{414}},
	{"a field of 100 kB", nil, sends("GET / HTTP/1.1\r\nHost: x\r\nA: " + strings.Repeat("a", 100_000) + "\r\n\r\n"),
		[]int{431}},
	{"a name of 1 MB", nil, sends("GET / HTTP/1.1\r\nHost: x\r\n" + strings.Repeat("a", 1<<20) + ": b\r\n\r\n"),
		[]int{431}},
	{"10,000 fields", nil, sends("GET / HTTP/1.1\r\nHost: x\r\n" + strings.Repeat("A: b\r\n", 10_000) + "\r\n"),
		[]int{431}},
	{"10,000 words in Connection", nil,
		sends("GET / HTTP/1.1\r\nHost: x\r\nConnection: a" + strings.Repeat(",a", 7_000) + "\r\n\r\n"), []int{400, 431}},
	{"2000 empty lines", nil, sends(strings.Repeat("\r\n", 2000) + get), []int{400}},
	{"zeros", nil, sends(strings.Repeat("\x00", 100_000)), []int{400}},
	{"TLS", nil, sends("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + strings.Repeat("\x01", 500)), []int{400}},
	{"a chunk extension of 64 KiB", nil, sends("PUT / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1;" +
		strings.Repeat("a", 64<<10) + "\r\na\r\n0\r\n\r\n"), []int{400}},
	{"chunks of one byte with extensions", nil,
		sends("PUT / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" +
			strings.Repeat("1;"+strings.Repeat("a", 200)+"\r\na\r\n", 10_000)), []int{400}},
	{"chunks of one byte", nil, sends(
		"PUT / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n" +
			strings.Repeat("1\r\na\r\n", 100_000) + "0\r\n\r\n"), []int{200, 400}},
	{"a size of a chunk beyond all bounds", nil,
		sends("PUT / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffffffff\r\n"), []int{413}},
	{"10,000 trailers", nil, sends("PUT / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n" +
		strings.Repeat("A: b\r\n", 10_000) + "\r\n"), []int{400, 431}},
	{"the largest length, and a trickle", []string{"BODY_TIMEOUT", "100ms"},
		sends(fmt.Sprintf("PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\na", int64(math.MaxInt64))), []int{408}},
	{"a larger length", nil, sends("PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 9223372036854775808\r\n\r\na"),
		[]int{400, 413}},
	{"a chunk of the largest size, and a trickle", []string{"BODY_TIMEOUT", "100ms"},
		sends("PUT / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n7fffffffffffffff\r\na"), []int{400, 408, 413}},
	{"a head that never ends", []string{"HEAD_TIMEOUT", "200ms"}, trickles("GET / HTTP/1.1\r\nHost: x\r\nA: ", "b"),
		[]int{408}},
	{"a request line that never ends", []string{"HEAD_TIMEOUT", "200ms"}, trickles("", "G"), []int{408}},
	{"nothing", []string{"IDLE_TIMEOUT", "1s"}, sends(""), []int{0}},
	{"empty lines now and then", []string{"IDLE_TIMEOUT", "1s", "HEAD_TIMEOUT", "100ms"}, trickles("", "\r\n"),
		[]int{0, 400, 408}},
}

// sends sends the text.
func sends(text string) func(io.Writer) {
	all := []byte(text)
	return func(w io.Writer) { _, _ = w.Write(all) }
}

// trickles sends the text, and then piece after piece until the connection
// ends.
func trickles(text, piece string) func(io.Writer) {
	next := []byte(piece)
	return func(w io.Writer) {
		_, err := io.WriteString(w, text)
		for err == nil {
			time.Sleep(5 * time.Millisecond) // a slow client is what this plays
			_, err = w.Write(next)
		}
	}
}

// Whatever clients do, they are told so and closed, they take little memory,
// who behaves is served meanwhile, and nothing of them is left.
func TestAttacks(t *testing.T) {
	for _, test := range attacks {
		t.Run(test.name, func(t *testing.T) {
			r := serve(t, echoes, test.env...)
			neighbour := r.dial()
			neighbour.Ask(get, 200)
			end := watchHeap(t, 8<<20+attackers*attackerHeap)
			var all sync.WaitGroup
			for range attackers {
				conn := r.dial()
				all.Go(func() { test.attack(conn) })
				all.Go(func() {
					if status, _ := told(conn); !slices.Contains(test.statuses, status) {
						t.Errorf("told %d, want one of %v", status, test.statuses)
					}
					if err := over(conn); err != nil {
						t.Error(err)
					}
					conn.Close()
				})
			}
			for range 20 {
				r.dial().Ask(get, 200)
			}
			all.Wait()
			end()
			r.metrics(`panics_total=0`)
			r.do("GET", "/again", "")
		})
	}
}

// told reads an answer without keeping it: its status, 0 when there is none, and
// whether it is whole.
func told(conn *testkit.Conn) (status int, whole bool) {
	for status < 200 {
		res, err := http.ReadResponse(conn.In, nil)
		if err != nil {
			return 0, false
		}
		status = res.StatusCode
		_, err = io.Copy(io.Discard, res.Body)
		whole = err == nil
	}
	return status, whole
}

// sabotages are what targets may do, and what the client is told; 0: an answer
// that begins and breaks off.
var sabotages = []struct {
	name     string
	env      []string
	play     func(c *targetConn)
	statuses []int
}{
	{"says nothing", []string{"TARGET_TIMEOUT", "1s"}, func(c *targetConn) { c.silence() }, []int{504}},
	{"a head that never ends, slowly", []string{"TARGET_TIMEOUT", "1s"},
		func(c *targetConn) { trickles("HTTP/1.1 200 OK\r\nA: ", "b")(c) }, []int{504}},
	{"a body that stops", []string{"TARGET_TIMEOUT", "1s"}, func(c *targetConn) {
		c.say("HTTP/1.1 200 OK\r\nContent-Length: 200000\r\n\r\nb")
		c.silence()
	}, []int{504}},
	{"a stream that stops", []string{"STREAM_TIMEOUT", "200ms"}, func(c *targetConn) {
		c.say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n")
		c.silence()
	}, []int{0}},
	{"a head that never ends", nil, func(c *targetConn) { floods("HTTP/1.1 200 OK\r\nA: ", "bbbbbbbb")(c) }, []int{502}},
	{"fields that never end", nil, func(c *targetConn) { floods("HTTP/1.1 200 OK\r\n", "A: b\r\n")(c) }, []int{502}},
	{"junk", nil, func(c *targetConn) { floods("", "junk\x00\xff\r")(c) }, []int{502}},
	{"empty lines", nil, func(c *targetConn) { floods("", "\r\n")(c) }, []int{502}},
	{"100 a thousand times", nil,
		func(c *targetConn) { c.say(strings.Repeat("HTTP/1.1 100 Continue\r\n\r\n", 1000)); c.echo(&seen{}) }, []int{502}},
	{"103 a thousand times", nil,
		func(c *targetConn) { c.say(strings.Repeat("HTTP/1.1 103 Early Hints\r\n\r\n", 1000)); c.echo(&seen{}) }, []int{502}},
	{"a chunk extension that never ends", nil, func(c *targetConn) {
		floods("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;", "aaaaaaaa")(c)
	}, []int{502, 0}},
	{"trailers that never end", nil, func(c *targetConn) {
		floods("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n", "A: b\r\n")(c)
	}, []int{502, 0}},
	{"closes in the middle of a large body", nil, func(c *targetConn) { sendsLarge(c) }, []int{0}},
	{"closes at once", nil, func(*targetConn) {}, []int{502}},
}

var sendsLarge = sends("HTTP/1.1 200 OK\r\nContent-Length: 9000000\r\n\r\n" + strings.Repeat("a", 1_000_000))

// floods sends the text, and then piece after piece without a pause until the
// connection ends.
func floods(text, piece string) func(io.Writer) {
	many := []byte(strings.Repeat(piece, 1000))
	return func(w io.Writer) {
		_, err := io.WriteString(w, text)
		for err == nil {
			_, err = w.Write(many)
		}
	}
}

// Whatever targets do, clients are told so in time, the proxy takes little
// memory, and the target's connections are given up.
func TestSabotage(t *testing.T) {
	for _, test := range sabotages {
		t.Run(test.name, func(t *testing.T) {
			target := newTarget(t, func(c *targetConn) {
				for s := c.next(); s != nil; s = c.next() {
					if s.target() == "/bad" {
						test.play(c)
						return
					}
					c.echo(s)
				}
			})
			r := start(t, target.url(), test.env...)
			end := watchHeap(t, 8<<20+attackers*attackerHeap)
			var all sync.WaitGroup
			for range attackers {
				conn := r.dial()
				conn.Send(request("/bad"))
				all.Go(func() {
					defer conn.Close()
					status, whole := told(conn)
					if status == 200 && !whole {
						status = 0
					}
					if !slices.Contains(test.statuses, status) {
						t.Errorf("told %d, want one of %v", status, test.statuses)
					}
				})
			}
			all.Wait()
			end()
			r.until("the target's connections are closed", func() bool { return target.open() == 0 })
			r.dial().Ask(get, 200)
			r.metrics(`panics_total=0`)
		})
	}
}

// A client that stops reading a stream is closed after WRITE_TIMEOUT, and the
// target's connection is freed; so is a client when it is the target that takes
// nothing of an upload.
func TestStalledStreamsEnd(t *testing.T) {
	t.Parallel() // a lingering close takes a second
	var broken atomic.Int64
	target := newTarget(t, func(c *targetConn) {
		c.next()
		c.say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
		floods("", "400\r\n"+strings.Repeat("a", 1024)+"\r\n")(c)
		broken.Add(1)
	})
	r := start(t, target.url(), "WRITE_TIMEOUT", "200ms")
	for range 5 {
		conn := r.dial()
		_ = conn.Conn.(*net.TCPConn).SetReadBuffer(4 << 10)
		conn.Send(get)
	}
	r.until("the target's connections are freed", func() bool { return broken.Load() == 5 && target.open() == 0 })
	checkBaseLine(r)
	r.metrics(`client_stalls_total=5 requests_abandoned_total=5`)

	deaf := newTarget(t, func(c *targetConn) {
		_ = c.Conn.(*net.TCPConn).SetReadBuffer(4 << 10)
		<-c.t.Context().Done()
	})
	r = start(t, deaf.url(), "WRITE_TIMEOUT", "200ms")
	conn := r.dial()
	conn.Send("PUT / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
	go floods("", "400\r\n"+strings.Repeat("a", 1024)+"\r\n")(conn)
	if res, err := http.ReadResponse(conn.In, nil); err != nil || res.StatusCode != 502 || !res.Close {
		t.Errorf("answered %v, %v", res, err)
	}
	conn.Close()
	checkBaseLine(r)
}

// A client that asks and asks and reads nothing is held back, and then closed:
// of its answers no more wait than of a stream.
func TestPipelineWithoutReading(t *testing.T) {
	answer := fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: 2000\r\n\r\n%02000d", 0)
	r := start(t, newTarget(t, says(answer)).url(), "WRITE_TIMEOUT", "1s")
	var all sync.WaitGroup
	for range 5 {
		conn := r.dial()
		_ = conn.Conn.(*net.TCPConn).SetReadBuffer(4 << 10)
		all.Go(func() { sends(strings.Repeat(get, 10_000))(conn) })
	}
	most := 0
	r.until("they are closed", func() bool {
		most = max(most, r.unsentMost())
		return r.group.Stats().Stalled.Load() == 5
	})
	all.Wait()
	checkBaseLine(r)
	if most == 0 || most > 256<<10 {
		t.Errorf("%d KiB of answers waited for one client", most>>10)
	}
}

// unsentMost is how many bytes wait at most for one connection.
func (r *rig) unsentMost() int {
	most := 0
	for _, n := range gather(r.loops, func(s *loopServer, _ time.Time) (most int) {
		s.loop.Each(func(c *loop.Conn, _ loop.Handler) { most = max(most, c.Unsent()) })
		return most
	}) {
		most = max(most, n)
	}
	return most
}
