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
	"sync"

	"weir/internal/net/share"
	"weir/internal/program/journal"
)

// A HandlerPool answers requests to a program's own endpoints outside its event loops. A loop
// passes the bytes of a request to it and continues. A few workers run the net/http handlers, which
// may be slow, and return the response as a value. The numbers of workers and of waiting requests
// are bounded, and so is the number of requests of one client. Health is answered immediately,
// without a worker.
//
// Safe for concurrent use: it is immutable after Dedicate, and queues are safe.
type HandlerPool struct {
	own       *Endpoints
	all       *BoundedQueue[job]
	dedicated *BoundedQueue[job] // for requests whose paths have the given prefix; see Dedicate
	prefix    string
	workers   sync.WaitGroup
}

// A job is a request that waits for a worker.
type job struct {
	raw  []byte
	from Addrs
	done func(Response)
}

// An Addrs has the addresses of both ends of the connection that a request came over.
type Addrs struct {
	Remote netip.AddrPort // the client's
	Local  netip.AddrPort // ours
	// Client is the address of the client if a trusted proxy has forwarded the request.
	Client netip.Addr
}

// client returns whose share of the queue the request takes.
func (a Addrs) client() share.Client {
	if a.Client.IsValid() {
		return share.ClientOf(a.Client)
	}
	return share.ClientOf(a.Remote.Addr())
}

// NewHandlerPool starts a HandlerPool with the given numbers of workers and of requests that may
// wait, both at least 1.
func NewHandlerPool(own *Endpoints, workers, waiting int) *HandlerPool {
	d := &HandlerPool{own: own, all: NewBoundedQueue[job](workers + waiting)}
	for range workers {
		d.workers.Go(func() { d.work(d.all) })
	}
	return d
}

// Dedicate gives requests whose paths begin with prefix a separate worker and a separate queue for the
// given number of waiting requests. It must be called before Submit.
func (p *HandlerPool) Dedicate(prefix string, waiting int) *HandlerPool {
	p.prefix, p.dedicated = prefix, NewBoundedQueue[job](1+waiting)
	p.workers.Go(func() { p.work(p.dedicated) })
	return p
}

// Submit accepts one request. raw is its head and its body according to Content-Length; it
// is copied. done is called exactly once: for health by Submit itself, otherwise on a
// worker's goroutine. Submit returns false, and done is never called, if too many requests wait, if the
// client has as many requests as it may have, or if the pool is closed. It does not block and may be
// called from a loop.
func (p *HandlerPool) Submit(raw []byte, from Addrs, done func(Response)) bool {
	path := pathOf(raw)
	if bytes.HasPrefix(raw, []byte("GET ")) || bytes.HasPrefix(raw, []byte("HEAD ")) {
		switch string(path) {
		case livenessPath:
			done(p.own.health.liveness())
			return true
		case readinessPath:
			done(p.own.health.readiness())
			return true
		}
	}
	to := p.all
	if p.dedicated != nil && bytes.HasPrefix(path, []byte(p.prefix)) {
		to = p.dedicated
	}
	return to.Enter(from.client(), func() job { return job{bytes.Clone(raw), from, done} })
}

// Refused returns how many requests were refused because there was no queue for them.
func (p *HandlerPool) Refused() uint64 {
	n := p.all.Refused()
	if p.dedicated != nil {
		n += p.dedicated.Refused()
	}
	return n
}

func pathOf(raw []byte) []byte {
	_, rest, _ := bytes.Cut(raw, []byte(" "))
	target, _, _ := bytes.Cut(rest, []byte(" "))
	path, _, _ := bytes.Cut(target, []byte("?"))
	return path
}

// Close accepts no more requests, answers those that wait, and returns when the last
// worker is done.
func (p *HandlerPool) Close() {
	p.all.Close()
	if p.dedicated != nil {
		p.dedicated.Close()
	}
	p.workers.Wait()
}

func (p *HandlerPool) work(queue *BoundedQueue[job]) {
	for a, ok := queue.Next(); ok; a, ok = queue.Next() {
		reply := p.answer(a)
		queue.Leave(a.from.client()) // first, so that a client that sends its next request then has its place
		a.done(reply)
	}
}

// answer runs the handler for one request.
func (p *HandlerPool) answer(a job) (reply Response) {
	defer func() {
		if v := recover(); v != nil {
			log := slog.Default().With(journal.ComponentKey, "HandlerPool")
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
	return replyOf(func(w http.ResponseWriter) { p.own.ServeHTTP(w, r.WithContext(ctx)) })
}

// Overloaded returns the answer to a request that Submit has not accepted.
func Overloaded() Response {
	return replyOf(func(w http.ResponseWriter) {
		w.Header().Set("Retry-After", "1")
		WriteError(w, http.StatusServiceUnavailable, errors.New("too many concurrent requests to the own endpoints"))
	})
}

func refuse(status int, err error) Response {
	return replyOf(func(w http.ResponseWriter) { WriteError(w, status, err) })
}
