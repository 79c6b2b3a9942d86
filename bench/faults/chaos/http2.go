package chaos

import (
	"hash/crc32"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// serveHTTP2 serves the target by HTTP/2, until the server that it returns is closed.
func (t *target) serveHTTP2(ln net.Listener) *http.Server {
	s := &http.Server{Handler: http.HandlerFunc(t.answer), Protocols: new(http.Protocols)}
	s.Protocols.SetUnencryptedHTTP2(true)
	go func() { _ = s.Serve(ln) }()
	return s
}

// answer answers a request on a stream of HTTP/2 with the behaviour named in the path. What ends the connection in
// HTTP/1.1 ends only the stream, so that others of the connection are not disturbed.
func (t *target) answer(w http.ResponseWriter, r *http.Request) {
	sum := crc32.NewIEEE()
	n, err := io.Copy(sum, r.Body)
	if err != nil {
		return // the client has reset the stream
	}
	t.seen.Add(1)
	t.seenHTTP2.Add(1)
	behaviour, body := t.behaviour(r), echo(r.Method, r.URL.Path, n, sum.Sum32())
	head, flush := r.Method == http.MethodHead, http.NewResponseController(w).Flush
	length := len(body)
	switch behaviour {
	case "large":
		body += strings.Repeat(".", largeBytes)
		length = len(body)
	case "cut", "junk":
		length += 5
	case "cutlarge":
		length += 2 * largeBytes
	}
	if behaviour != "chunks" {
		w.Header().Set("Content-Length", strconv.Itoa(length))
	}
	switch behaviour {
	case "once", "reset", "eof":
		panic(http.ErrAbortHandler)
	case "cut", "cutlarge":
		if head {
			break // no body to truncate
		}
		_, _ = io.WriteString(w, body+strings.Repeat(".", (length-len(body))/2))
		_ = flush()
		panic(http.ErrAbortHandler)
	case "junk":
		if head {
			panic(http.ErrAbortHandler) // instead of a body that is too short
		}
	case "hints":
		w.Header().Set("Link", "</a>")
		w.WriteHeader(http.StatusEarlyHints)
	case "last":
		w.Header().Set("Connection", "close") // GOAWAY
	case "late":
		time.Sleep(2 * slowPiece)
	}
	if pause, ok := map[string]time.Duration{"split": 0, "slow": slowPiece, "chunks": 0}[behaviour]; ok && !head {
		for third := len(body) / 3; len(body) > third+2; body = body[third:] {
			_, _ = io.WriteString(w, body[:third])
			_ = flush()
			time.Sleep(pause)
		}
	}
	t.served.Add(1) // before it is sent, so that an answer that was read has been counted
	_, _ = io.WriteString(w, body)
}
