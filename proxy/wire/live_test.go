package wire

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/internal/test/testkit"
)

// Server-sent events arrive as they are sent: the target sends the next one when
// the client has seen the last.
func TestServerSentEvents(t *testing.T) {
	for _, version := range []string{"1.1", "1.0"} {
		for _, framing := range []string{"in chunks", "up to the close"} {
			t.Run("to HTTP/"+version+" "+framing, func(t *testing.T) {
				const events = 20
				r := serve(t, func(c *targetConn) {
					c.next()
					head := "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
					event := func(text string) string { return text }
					if framing == "in chunks" {
						head += "Transfer-Encoding: chunked\r\n"
						event = func(text string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(text), text) }
					}
					c.say(head + "\r\n")
					for i := range events {
						await(c.t, c.at.let)
						c.say(event(fmt.Sprintf("data: %d\n\n", i)))
					}
					if framing == "in chunks" {
						c.say("0\r\n\r\n")
					}
				})
				conn := r.dial()
				conn.Send("GET / HTTP/" + version + "\r\nHost: x\r\n\r\n")
				res, err := http.ReadResponse(conn.In, nil) // before there is any event
				if err != nil || res.StatusCode != 200 || (version == "1.0") == slices.Equal(res.TransferEncoding,
					[]string{"chunked"}) {
					t.Fatalf("answered %v, %v", res, err)
				}
				body := bufio.NewReader(res.Body)
				for i := range events {
					r.targets["target"].let <- true
					line, err := body.ReadString('\n')
					if _, err2 := body.ReadString('\n'); line != fmt.Sprintf("data: %d\n", i) || err != nil || err2 != nil {
						t.Fatalf("event %d is %q, %v, %v", i, line, err, err2)
					}
				}
				if rest, err := io.ReadAll(body); err != nil || len(rest) > 0 {
					t.Errorf("behind the events came %q, %v", rest, err)
				}
			})
		}
	}
}

// A target may answer while the client is still sending: piece by piece, each
// sent when the last has come back, and in bulk.
func TestFullDuplex(t *testing.T) {
	r := start(t, newService(t, func(w http.ResponseWriter, req *http.Request) {
		full := http.NewResponseController(w)
		if err := full.EnableFullDuplex(); err != nil {
			t.Error(err)
		}
		w.WriteHeader(200)
		_ = full.Flush()
		for piece := make([]byte, 32<<10); ; {
			n, err := req.Body.Read(piece)
			if n > 0 {
				_, _ = w.Write(piece[:n])
				_ = full.Flush()
			}
			if err != nil {
				return
			}
		}
	}), "BODY_BUFFER_BYTES", "1KiB")
	conn, first := r.dial(), strings.Repeat("a", 2000) // it streams from here on
	res := r.answers(conn, upload+fmt.Sprintf("%x\r\n%s\r\n", len(first), first))
	back := make([]byte, len(first))
	if _, err := io.ReadFull(res.Body, back); err != nil || string(back) != first {
		t.Fatalf("back came %q, %v", back, err)
	}
	for i := range 100 {
		piece := fmt.Sprintf("piece %d", i)
		conn.Send(fmt.Sprintf("%x\r\n%s\r\n", len(piece), piece))
		if _, err := io.ReadFull(res.Body, back[:len(piece)]); err != nil || string(back[:len(piece)]) != piece {
			t.Fatalf("piece %d came back as %q, %v", i, back[:len(piece)], err)
		}
	}
	sent := newStream(stalledBytes)
	var sending sync.WaitGroup
	sending.Go(func() {
		sent.gives(t, "the client", newChunks(conn))
		conn.Send("0\r\n\r\n")
	})
	got := taken(t, "the client", res.Body)
	sending.Wait()
	sent.arrives(t, got)
}

// newChunks writes each piece as a chunk.
func newChunks(w io.Writer) io.Writer {
	return writeFunc(func(p []byte) (int, error) {
		_, err := fmt.Fprintf(w, "%x\r\n%s\r\n", len(p), p)
		return len(p), err
	})
}

type readFunc func(p []byte) (int, error)

func (f readFunc) Read(p []byte) (int, error) { return f(p) }

type writeFunc func(p []byte) (int, error)

func (f writeFunc) Write(p []byte) (int, error) { return f(p) }

// A client that reads more slowly than its target sends never has all of what
// waits for it sent: what it has taken must be forgotten nevertheless.
func TestSteadilySlowReader(t *testing.T) {
	body := newStream(32 << 20)
	r := start(t, newService(t, func(w http.ResponseWriter, _ *http.Request) {
		body.gives(t, "the target", w)
	}), "EVENT_LOOPS", "1", "STREAM_TIMEOUT", stalledPatience, "WRITE_TIMEOUT", stalledPatience)
	conn := r.dial()
	_ = conn.Conn.(*net.TCPConn).SetReadBuffer(32 << 10)
	end := watchHeap(t, 8<<20)
	res := r.answers(conn, get)
	body.arrives(t, taken(t, "the client", readFunc(func(p []byte) (int, error) {
		time.Sleep(50 * time.Microsecond) // a slow client is what this plays
		return res.Body.Read(p)
	})))
	end()
}

// A target that is done and closes while its client is slow: what it sent is
// not lost, whatever ends the body, and the end is the right one.
func TestSlowReaderOfEndedTarget(t *testing.T) {
	body := strings.Repeat("0123456789abcdef", 3<<16)
	for _, test := range []struct {
		name, answer string
		cut          bool
	}{
		{"length", fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body), false},
		{"chunks", fmt.Sprintf("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", len(body),
			body), false},
		{"close", "HTTP/1.1 200 OK\r\n\r\n" + body, false},
		{"length, cut", fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body)+1, body), true},
		{"chunks, cut", fmt.Sprintf("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n", len(body), body),
			true},
	} {
		for _, version := range []string{"1.1", "1.0"} {
			t.Run(test.name+" to HTTP/"+version, func(t *testing.T) {
				r := serve(t, func(c *targetConn) {
					c.next()
					c.say(test.answer)
					_ = c.Close()
					c.at.asked <- "answered"
				})
				conn := r.dial()
				_ = conn.Conn.(*net.TCPConn).SetReadBuffer(64 << 10)
				conn.Send("GET / HTTP/" + version + "\r\nHost: x\r\n\r\n")
				r.play(`target gets 1`)
				res := testkit.Must(http.ReadResponse(conn.In, nil))(t)
				got, err := io.ReadAll(res.Body)
				if string(got) != body && !(test.cut && strings.HasPrefix(body, string(got))) || (err != nil) != test.cut {
					t.Errorf("%d of %d bytes arrive, then %v", len(got), len(body), err)
				}
				conn.Close()
				checkBaseLine(r)
			})
		}
	}
}

// A target may refuse an upload without reading it: the client gets that answer, and neither
// connection is used again.
func TestTargetRefusesUpload(t *testing.T) {
	const refusal = "HTTP/1.1 413 Content Too Large\r\nContent-Length: 2\r\n\r\nno"
	for name, end := range map[string]func(c *targetConn){
		"and closes":  func(c *targetConn) {}, // a reset, as there is something unread
		"and lingers": func(c *targetConn) { _ = c.Conn.(*net.TCPConn).CloseWrite(); _, _ = io.Copy(io.Discard, c) },
		"and waits":   func(c *targetConn) { c.silence() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // lingering closes take a second
			r := serve(t, func(c *targetConn) {
				for !strings.Contains(string(c.unread), "\r\n\r\n") {
					if !c.more() {
						return
					}
				}
				c.say(refusal)
				end(c)
			})
			r.together(10, func(_ int, c *testkit.Conn) {
				c.Send(sized + "8000000\r\n\r\n")
				go io.CopyN(c, newStream(8_000_000), 8_000_000) // it may be closed before
				if res, body, err := final(c.In, "PUT"); err != nil || res.StatusCode != 413 || body != "no" || !res.Close {
					t.Errorf("answered %v %q, %v", res, body, err)
				}
				c.Close()
			})()
			r.play(`rest; target open 0`)
		})
	}
}
