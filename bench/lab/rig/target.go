package rig

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Serve serves h at a free address until the current part ends, and then closes all connections.
func (l *Lab) Serve(h http.Handler) (addr string) {
	ln := Must(net.Listen("tcp", "127.0.0.1:0"))
	ctx, cancel := context.WithCancel(context.Background())
	var serving sync.WaitGroup
	serving.Go(func() { _ = serve(ctx, ln, h) })
	l.Cleanup(func() {
		cancel()
		serving.Wait()
	})
	return ln.Addr().String()
}

// Serve serves h at addr until ctx ends, then closes all connections.
func Serve(ctx context.Context, addr string, h http.Handler) error {
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	return serve(ctx, ln, h)
}

func serve(ctx context.Context, ln net.Listener, h http.Handler) error {
	srv := &http.Server{Handler: h, ReadHeaderTimeout: time.Minute, ConnContext: smallBuffer}
	stop := context.AfterFunc(ctx, func() { _ = srv.Close() })
	defer stop()
	if err := srv.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// smallBuffer keeps the kernel from buffering megabytes of an answer on our side: unread data
// is to pile up in the proxy, whose memory is measured.
func smallBuffer(ctx context.Context, c net.Conn) context.Context {
	const bytes = 64 << 10
	if tc, ok := c.(*net.TCPConn); ok {
		_ = tc.SetWriteBuffer(bytes)
	}
	return ctx
}

// FaultyTarget returns a target whose behaviour the path selects, for experiments that need
// more than the target program offers. Well-formed answers repeat the request's Via in X-Via,
// which identifies the proxy.
//
//	/api/test        200, OK
//	/bytes/N         N bytes of the Pattern
//	/hash            the number of bytes received, and their SHA-256
//	/after/D         200 after the duration D
//	/events/N/D      N server-sent events numbered from 0, one every D
//	/never           no answer
//	/drip            a byte of the body every second
//	/cut             closes the connection in the middle of the body
//	/junk            bytes that are not HTTP
//	/interim/N       200 after N times 100 Continue
func FaultyTarget() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/api/test", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, "OK")
	})
	mux.HandleFunc("/bytes/{n}", sendBytes)
	mux.HandleFunc("/hash", func(w http.ResponseWriter, r *http.Request) {
		n, sum, err := Digest(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		fmt.Fprintf(w, "%d %s", n, sum)
	})
	mux.HandleFunc("/after/{d}", func(w http.ResponseWriter, r *http.Request) {
		pause(r, duration(r))
		_, _ = io.WriteString(w, "OK")
	})
	mux.HandleFunc("/events/{n}/{d}", sendEvents)
	mux.HandleFunc("/never", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	mux.HandleFunc("/drip", drip)
	mux.HandleFunc("/cut", say("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n"+strings.Repeat("x", 100)))
	mux.HandleFunc("/junk", say("\x16\x03\x01\x00 this is not HTTP\r\n\r\n"))
	mux.HandleFunc("/interim/{n}", func(w http.ResponseWriter, r *http.Request) {
		n, _ := strconv.Atoi(r.PathValue("n"))
		say(strings.Repeat("HTTP/1.1 100 Continue\r\n\r\n", n)+
			"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nOK")(w, r)
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Via", r.Header.Get("Via"))
		mux.ServeHTTP(w, r)
	})
}

// TargetWithWorkers returns a target with n workers, each of which spends service on a request, whatever
// its path. Requests wait for a worker in any number, and are served even if their client has
// disconnected.
func TargetWithWorkers(n int, service time.Duration) http.Handler {
	free := make(chan struct{}, n)
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		free <- struct{}{}
		time.Sleep(service)
		<-free
		_, _ = io.WriteString(w, "OK")
	})
}

// Pattern returns n bytes whose period, 23, is not a power of two, so that lost and repeated
// pieces are detected.
func Pattern(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = 'a' + byte(i%23)
	}
	return b
}

// Digest reads all of r and returns the number of bytes and their SHA-256.
func Digest(r io.Reader) (n int64, sum string, err error) {
	h := sha256.New()
	n, err = io.Copy(h, r)
	return n, fmt.Sprintf("%x", h.Sum(nil)), err
}

func sendBytes(w http.ResponseWriter, r *http.Request) {
	n, err := strconv.ParseInt(r.PathValue("n"), 10, 64)
	if err != nil {
		http.Error(w, "not a number", http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Length", strconv.FormatInt(n, 10))
	const piece = 23 << 10 // whole periods
	pattern := Pattern(piece)
	for n > 0 {
		m := min(n, piece)
		if _, err := w.Write(pattern[:m]); err != nil {
			return
		}
		n -= m
	}
}

func sendEvents(w http.ResponseWriter, r *http.Request) {
	n, _ := strconv.Atoi(r.PathValue("n"))
	w.Header().Set("Content-Type", "text/event-stream")
	for i := range n {
		if i > 0 && !pause(r, duration(r)) {
			return
		}
		fmt.Fprintf(w, "data: %d\n\n", i)
		if http.NewResponseController(w).Flush() != nil {
			return
		}
	}
}

func drip(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Length", "1000")
	for range 1000 {
		_, _ = io.WriteString(w, "x")
		if http.NewResponseController(w).Flush() != nil || !pause(r, time.Second) {
			return
		}
	}
}

// say returns a handler that sends text and closes the connection.
func say(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		c, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		_, _ = io.WriteString(c, text)
		_ = c.Close()
	}
}

// duration returns the duration in the path; an invalid one is 0.
func duration(r *http.Request) time.Duration {
	d, _ := time.ParseDuration(r.PathValue("d"))
	return d
}

// pause waits for d and reports whether the client is still connected.
func pause(r *http.Request, d time.Duration) bool { return Wait(r.Context(), d) == nil }
