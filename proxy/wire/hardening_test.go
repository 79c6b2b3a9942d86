package wire

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
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

// Beginnings of attacks.
const (
	head   = "GET / HTTP/1.1\r\nHost: x\r\n"
	upload = "PUT / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
	sized  = "PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: "
)

// attacks are what clients may do, and what they are told before they are
// closed; 0: nothing.
var attacks = []struct {
	name     string
	setting  string
	attack   func(w io.Writer)
	statuses []int
}{
	{"a target of 100 kB", "", sends("GET /" + many("a", 100_000) + " HTTP/1.1\r\nHost: x\r\n\r\n"), []int{414}},
	{"a field of 100 kB", "", sends(head + "A: " + many("a", 100_000) + "\r\n\r\n"), []int{431}},
	{"a name of 1 MB", "", sends(head + many("a", 1<<20) + ": b\r\n\r\n"), []int{431}},
	{"10,000 fields", "", sends(head + many("A: b\r\n", 10_000) + "\r\n"), []int{431}},
	{"10,000 words in Connection", "", sends(head + "Connection: a" + many(",a", 7_000) + "\r\n\r\n"), []int{400, 431}},
	{"2000 empty lines", "", sends(many("\r\n", 2000) + get), []int{400}},
	{"zeros", "", sends(many("\x00", 100_000)), []int{400}},
	{"TLS", "", sends("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + many("\x01", 500)), []int{400}},
	{"a chunk extension of 64 KiB", "", sends(upload + "1;" + many("a", 64<<10) + "\r\na\r\n0\r\n\r\n"), []int{400}},
	{"chunks of one byte with extensions", "", sends(upload + many("1;"+many("a", 200)+"\r\na\r\n", 10_000)), []int{400}},
	{"chunks of one byte", "", sends(strings.Replace(upload, "\r\n\r\n", "\r\nConnection: close\r\n\r\n", 1) +
		many("1\r\na\r\n", 100_000) + "0\r\n\r\n"), []int{200, 400}},
	{"a size of a chunk beyond all bounds", "", sends(upload + "fffffffffffffffffff\r\n"), []int{413}},
	{"10,000 trailers", "", sends(upload + "0\r\n" + many("A: b\r\n", 10_000) + "\r\n"), []int{400, 431}},
	{"the largest length, and a trickle", "BODY_TIMEOUT=100ms", sends(sized + "9223372036854775807\r\n\r\na"), []int{408}},
	{"a larger length", "", sends(sized + "9223372036854775808\r\n\r\na"), []int{400, 413}},
	{"a chunk of the largest size, and a trickle", "BODY_TIMEOUT=100ms", sends(upload + "7fffffffffffffff\r\na"),
		[]int{400, 408, 413}},
	{"a head that never ends", "HEAD_TIMEOUT=200ms", trickles(head+"A: ", "b"), []int{408}},
	{"a request line that never ends", "HEAD_TIMEOUT=200ms", trickles("", "G"), []int{408}},
	{"nothing", "IDLE_TIMEOUT=1s", sends(""), []int{0}},
	{"empty lines now and then", "IDLE_TIMEOUT=1s HEAD_TIMEOUT=100ms", trickles("", "\r\n"), []int{0, 400, 408}},
}

// many is a text n times.
func many(text string, n int) string { return strings.Repeat(text, n) }

// settings are names and values in turn, as start takes them.
func settings(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ' ' || r == '=' })
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
			r := serve(t, echoes, settings(test.setting)...)
			r.play(`neighbour GET / -> 200`)
			end := watchHeap(t, 8<<20+attackers*attackerHeap)
			wait := r.together(attackers, func(_ int, c *testkit.Conn) {
				go test.attack(c)
				if status, _ := told(c); !slices.Contains(test.statuses, status) {
					t.Errorf("told %d, want one of %v", status, test.statuses)
				}
				if err := over(c); err != nil {
					t.Error(err)
				}
				c.Close()
			})
			r.play(`others*20 GET / -> 200`)
			wait()
			end()
			r.play(`metrics panics_total=0; again GET / -> 200`)
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

// Beginnings of answers.
const (
	fields  = "HTTP/1.1 200 OK\r\n"
	chunks  = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
	lengthy = "HTTP/1.1 200 OK\r\nContent-Length: "
)

// sabotages are what targets may do, and what the client is told; 0: an answer
// that begins and breaks off.
var sabotages = []struct {
	name     string
	setting  string
	answer   func(w io.Writer)
	stops    bool // and is silent then
	statuses []int
}{
	{"says nothing", "TARGET_TIMEOUT=1s", sends(""), true, []int{504}},
	{"a head that never ends, slowly", "TARGET_TIMEOUT=1s", trickles(fields+"A: ", "b"), false, []int{504}},
	{"a body that stops", "TARGET_TIMEOUT=1s", sends(lengthy + "200000\r\n\r\nb"), true, []int{504}},
	{"a stream that stops", "STREAM_TIMEOUT=200ms", sends(chunks + "1\r\na\r\n"), true, []int{0}},
	{"a head that never ends", "", floods(fields+"A: ", "bbbbbbbb"), false, []int{502}},
	{"fields that never end", "", floods(fields, "A: b\r\n"), false, []int{502}},
	{"junk", "", floods("", "junk\x00\xff\r"), false, []int{502}},
	{"empty lines", "", floods("", "\r\n"), false, []int{502}},
	{"100 a thousand times", "", sends(many("HTTP/1.1 100 Go on\r\n\r\n", 1000) + answerOf("a")), false, []int{502}},
	{"103 a thousand times", "", sends(many("HTTP/1.1 103 Hints\r\n\r\n", 1000) + answerOf("a")), false, []int{502}},
	{"a chunk extension that never ends", "", floods(chunks+"1;", "aaaaaaaa"), false, []int{502, 0}},
	{"trailers that never end", "", floods(chunks+"1\r\na\r\n0\r\n", "A: b\r\n"), false, []int{502, 0}},
	{"closes in the middle of a large body", "", sends(lengthy + "9000000\r\n\r\n" + many("a", 1_000_000)), false,
		[]int{0}},
	{"closes at once", "", sends(""), false, []int{502}},
}

// floods sends the text, and then piece after piece without a pause until the
// connection ends.
func floods(text, piece string) func(io.Writer) {
	pieces := []byte(many(piece, 1000))
	return func(w io.Writer) {
		_, err := io.WriteString(w, text)
		for err == nil {
			_, err = w.Write(pieces)
		}
	}
}

// Whatever targets do, clients are told so in time, the proxy takes little
// memory, and the target's connections are given up.
func TestSabotage(t *testing.T) {
	for _, test := range sabotages {
		t.Run(test.name, func(t *testing.T) {
			r := serve(t, func(c *targetConn) {
				for s := c.next(); s != nil; s = c.next() {
					if s.target() != "/bad" {
						c.echo(s)
						continue
					}
					if test.answer(c); test.stops {
						c.silence()
					}
					return
				}
			}, settings(test.setting)...)
			end := watchHeap(t, 8<<20+attackers*attackerHeap)
			r.together(attackers, func(_ int, c *testkit.Conn) {
				c.Send(request("/bad"))
				status, whole := told(c)
				if status == 200 && !whole {
					status = 0
				}
				if !slices.Contains(test.statuses, status) {
					t.Errorf("told %d, want one of %v", status, test.statuses)
				}
				c.Close()
			})()
			end()
			r.play(`target open 0; GET / -> 200; metrics panics_total=0`)
		})
	}
}

// A client that stops reading a stream is closed after WRITE_TIMEOUT, and the
// target's connection is freed; so is a client when it is the target that takes
// nothing of an upload.
func TestStalledStreamsEnd(t *testing.T) {
	t.Parallel() // a lingering close takes a second
	piece := "400\r\n" + many("a", 1024) + "\r\n"
	r := serve(t, func(c *targetConn) {
		c.next()
		floods(chunks, piece)(c)
		c.at.asked <- "broken"
	}, "WRITE_TIMEOUT", "200ms")
	for range 5 {
		conn := r.dial()
		_ = conn.Conn.(*net.TCPConn).SetReadBuffer(4 << 10)
		conn.Send(get)
	}
	r.play(`target gets 5; target open 0; rest; metrics client_stalls_total=5 requests_abandoned_total=5`)

	r = serve(t, func(c *targetConn) {
		_ = c.Conn.(*net.TCPConn).SetReadBuffer(4 << 10)
		<-c.t.Context().Done()
	}, "WRITE_TIMEOUT", "200ms")
	r.playf(`a %q`, upload)
	go floods("", piece)(r.clients("a")[0])
	r.play(`a -> 502 closes; rest`)
}

// A client that asks and asks and reads nothing is held back, and then closed:
// of its answers no more wait than of a stream.
func TestPipelineWithoutReading(t *testing.T) {
	t.Parallel() // waits for the timeout
	answer := fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: 2000\r\n\r\n%02000d", 0)
	r := start(t, newTarget(t, says(answer)).url(), "WRITE_TIMEOUT", "1s")
	wait := r.together(5, func(_ int, c *testkit.Conn) {
		_ = c.Conn.(*net.TCPConn).SetReadBuffer(4 << 10)
		sends(many(get, 10_000))(c)
	})
	most := 0
	r.until("they are closed", func() bool {
		most = max(most, r.unsentMost())
		return r.group.Stats().Stalled.Load() == 5
	})
	wait()
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
