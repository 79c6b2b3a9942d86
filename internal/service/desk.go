package service

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"runtime/debug"
	"slices"
	"sync"

	"weir/internal/journal"
)

// A Desk answers requests to a program's own endpoints outside its event loops. A loop
// passes on the bytes of a request and continues; a few workers run the net/http
// handlers, which may be slow; and the answer comes back as a value. The numbers of
// workers and of waiting requests are bounded. Health is answered at once, without a
// worker.
//
// Safe for concurrent use: asks go through a channel, and a mutex keeps Close from
// closing it under a sender.
type Desk struct {
	own     *Endpoints
	asks    chan ask
	apart   chan ask // requests whose paths have the given prefix; see Apart
	prefix  string
	workers sync.WaitGroup

	mu     sync.RWMutex
	closed bool
}

// An ask is a request that waits for a worker.
type ask struct {
	raw  []byte
	from Link
	done func(Reply)
}

// A Link has the two ends of the connection that a request came over.
type Link struct {
	Remote netip.AddrPort // the client's
	Local  netip.AddrPort // ours
}

// NewDesk starts a Desk with the given number of workers, at least 1, and room for the
// given number of waiting requests.
func NewDesk(own *Endpoints, workers, waiting int) *Desk {
	d := &Desk{own: own, asks: make(chan ask, max(waiting, 0)), apart: make(chan ask)}
	for range max(workers, 1) {
		d.workers.Go(func() { d.work(d.asks) })
	}
	return d
}

// Apart gives paths with the prefix a worker and waiting room of their own. Call it
// before Ask.
func (d *Desk) Apart(prefix string, waiting int) *Desk {
	d.prefix, d.apart = prefix, make(chan ask, max(waiting, 0))
	d.workers.Go(func() { d.work(d.apart) })
	return d
}

// Ask accepts one request. raw is its head and its body according to Content-Length; it
// is copied. done is called exactly once: for health by Ask itself, otherwise on a
// worker's goroutine. Ask returns false, and done is never called, if there is no room or
// the Desk is closed. It does not block and may be called from a loop.
func (d *Desk) Ask(raw []byte, from Link, done func(Reply)) bool {
	path := pathOf(raw)
	if bytes.HasPrefix(raw, []byte("GET ")) || bytes.HasPrefix(raw, []byte("HEAD ")) {
		switch string(path) {
		case livenessPath:
			done(d.own.health.liveness())
			return true
		case readinessPath:
			done(d.own.health.readiness())
			return true
		}
	}
	d.mu.RLock()
	defer d.mu.RUnlock()
	asks := d.asks
	if d.prefix != "" && bytes.HasPrefix(path, []byte(d.prefix)) {
		asks = d.apart
	}
	if d.closed || len(asks) == cap(asks) && cap(asks) > 0 {
		return false // before copying
	}
	select {
	case asks <- ask{slices.Clone(raw), from, done}:
		return true
	default:
		return false
	}
}

func pathOf(raw []byte) []byte {
	_, rest, _ := bytes.Cut(raw, []byte(" "))
	target, _, _ := bytes.Cut(rest, []byte(" "))
	path, _, _ := bytes.Cut(target, []byte("?"))
	return path
}

// Close accepts no more requests, answers those that wait, and returns when the last
// worker is done.
func (d *Desk) Close() {
	d.mu.Lock()
	if !d.closed {
		d.closed = true
		close(d.asks)
		close(d.apart)
	}
	d.mu.Unlock()
	d.workers.Wait()
}

func (d *Desk) work(asks <-chan ask) {
	for a := range asks {
		a.done(d.answer(a))
	}
}

// answer runs the handler for one request.
func (d *Desk) answer(a ask) (reply Reply) {
	defer func() {
		if v := recover(); v != nil {
			log := slog.Default().With(journal.ComponentKey, "Desk")
			log.Error("Panic while answering", "value", v, "stack", string(debug.Stack()))
			reply = refuse(http.StatusInternalServerError, errors.New("internal error"))
		}
	}()
	r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(a.raw)))
	if err != nil {
		return refuse(http.StatusBadRequest, errors.New("the request cannot be read"))
	}
	r.RemoteAddr = a.from.Remote.String()
	ctx := context.WithValue(r.Context(), http.LocalAddrContextKey, net.TCPAddrFromAddrPort(a.from.Local))
	return replyOf(func(w http.ResponseWriter) { d.own.ServeHTTP(w, r.WithContext(ctx)) })
}

func refuse(status int, err error) Reply {
	return replyOf(func(w http.ResponseWriter) { WriteError(w, status, err) })
}
