package remote

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"weir/internal/test/testkit"
	"weir/proxy/store"
	"weir/proxy/store/asks"
)

// listen serves every connection with serve, one at a time.
func listen(t testing.TB, serve func(net.Conn)) (url string) {
	t.Helper()
	return "http://" + testkit.Serve(t, serve)
}

// granting answers the first question of each connection with all, and passes the connection on.
func granting(t testing.TB, then func(net.Conn)) (url string) {
	t.Helper()
	return listen(t, func(c net.Conn) {
		if asked(c) == nil {
			grant(c)
			then(c)
		}
	})
}

func grant(c net.Conn) {
	body := all()
	fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
}

// asked reads one question.
func asked(c net.Conn) error {
	req, err := http.ReadRequest(bufio.NewReader(c))
	if err == nil {
		_, err = io.Copy(io.Discard, req.Body)
	}
	return err
}

// all is the answer that grants the one request of a group without counters that are limited.
func all() string {
	ans := store.Answer{Granted: 1, Prior: make([]store.PriorState, 1)}
	return string(asks.AppendAnswer(asks.AppendHead(nil, store.Exact, 1), &ans))
}

// Answers may come in any form that HTTP/1.1 has, and in pieces.
func TestFormsOfAnswers(t *testing.T) {
	t.Parallel()
	body := all()
	sized := fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	for name, test := range map[string]struct {
		text  string
		class store.ErrorClass
		kept  bool
	}{
		"a length": {sized, 0, true},
		"chunks": {fmt.Sprintf(
			"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n%x\r\n%s\r\n0\r\n\r\n", 3, body[:3],
			len(body)-3, body[3:]), 0, true},
		"until the end":         {"HTTP/1.1 200 OK\r\n\r\n" + body, 0, false},
		"the last":              {"HTTP/1.1 200 OK\r\nConnection: close\r\n" + sized[len("HTTP/1.1 200 OK\r\n"):], 0, false},
		"an interim one before": {"HTTP/1.1 103 Early Hints\r\n\r\n" + sized, 0, true},
		"more than an answer":   {sized + "HTTP/1.1", 0, false},
		"a head that ends":      {sized[:20], store.OutageFault, false},
		"a body that ends":      {sized[:len(sized)-1], store.OutageFault, false},
		"no HTTP":               {"+PONG\r\n\r\n", store.OutageFault, false},
		"nothing":               {"", store.OutageFault, false},
		"a fault of ours":       {"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n", store.ItemFault, true},
	} {
		for _, piece := range []int{1, 7, len(test.text) + 1} {
			url := listen(t, func(c net.Conn) {
				defer c.Close()
				if asked(c) != nil {
					return
				}
				for text := test.text; text != ""; {
					n := min(piece, len(text))
					if _, err := io.WriteString(c, text[:n]); err != nil {
						return
					}
					text = text[n:]
				}
				if test.kept {
					_, _ = io.Copy(io.Discard, c) // until the other side closes it
				}
			})
			b := openSidecar(t, Config{URLs: []string{url}})
			g := b.decide(one(1, "r", fixed(5)))
			if f := b.Classify(g.Err); f.Class != test.class || f.Class == 0 && g.Granted != 1 {
				t.Errorf("%s in pieces of %d: %v, %d granted", name, piece, g.Err, g.Granted)
			}
			if idle := b.idle(); piece > len(test.text) && idle != map[bool]int{true: 1}[test.kept] {
				t.Errorf("%s: %d connections are kept", name, idle)
			}
		}
	}
}

// A master that accepts no connection leaves time for the next one.
func TestNextMaster(t *testing.T) {
	t.Parallel()
	_, prefix, m := startWorld(t)
	cfg := config(m)
	cfg.URLs = append([]string{"https://" + testkit.Listen(t).Addr().String()}, cfg.URLs...)
	s := openSidecar(t, cfg)
	g := one(1, prefix+"r", fixed(5))
	for timeout := 50 * time.Millisecond; timeout < patience; timeout *= 2 { // half of it is for connecting
		s.current.Store(0)
		if <-s.send(&store.Batch{Groups: []*store.Group{g}}, timeout); g.Err == nil {
			break
		}
	}
	if g.Err != nil || g.Granted != 1 || s.current.Load() != 1 {
		t.Errorf("%v, then master %d", g.Err, s.current.Load())
	}
}
