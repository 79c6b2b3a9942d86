package service

import (
	"bufio"
	"bytes"
	"errors"
	"log/slog"
	"net/http"
	"runtime/debug"
	"slices"
	"sync"
)

// A Desk answers requests to a program's own endpoints off its event loops: a
// loop passes on the bytes of a request and goes on, a few workers run the
// net/http handlers, which may take their time, and the answer comes back as a
// value. How many workers run and how many requests may wait is bounded.
//
// Safe for concurrent use: asks go through a channel, and a mutex keeps Close
// from closing it under a sender.
type Desk struct {
	handler http.Handler
	asks    chan ask
	workers sync.WaitGroup

	mu     sync.RWMutex
	closed bool
}

// An ask is one request that waits for a worker.
type ask struct {
	raw    []byte
	remote string
	done   func(Reply)
}

// NewDesk starts a Desk with the given number of workers, at least 1, and of
// places where requests wait for one.
func NewDesk(h http.Handler, workers, waiting int) *Desk {
	d := &Desk{handler: h, asks: make(chan ask, max(waiting, 0))}
	for range max(workers, 1) {
		d.workers.Go(d.work)
	}
	return d
}

// Ask takes on one request: raw is its head and, as far as its Content-Length
// says, its body, and is copied; remote is the client's address. done is called
// on a worker's goroutine, exactly once. Ask returns false, and done is never
// called, when all places are taken or the Desk is closed. It does not block
// and may be called from a loop.
func (d *Desk) Ask(raw []byte, remote string, done func(Reply)) bool {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if d.closed || len(d.asks) == cap(d.asks) && cap(d.asks) > 0 {
		return false // before the copy
	}
	select {
	case d.asks <- ask{slices.Clone(raw), remote, done}:
		return true
	default:
		return false
	}
}

// Close takes on no more requests, answers those that wait and returns when the
// last worker is done.
func (d *Desk) Close() {
	d.mu.Lock()
	if !d.closed {
		d.closed = true
		close(d.asks)
	}
	d.mu.Unlock()
	d.workers.Wait()
}

func (d *Desk) work() {
	for a := range d.asks {
		a.done(d.answer(a))
	}
}

// answer runs the handler.
func (d *Desk) answer(a ask) (reply Reply) {
	defer func() {
		if v := recover(); v != nil {
			log := slog.Default().With(componentKey, "Desk")
			log.Error("Panic while answering", "value", v, "stack", string(debug.Stack()))
			reply = refuse(http.StatusInternalServerError, errors.New("internal error"))
		}
	}()
	r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(a.raw)))
	if err != nil {
		return refuse(http.StatusBadRequest, errors.New("the request cannot be read"))
	}
	r.RemoteAddr = a.remote
	w := newReplyWriter()
	d.handler.ServeHTTP(w, r)
	return w.reply()
}

// refuse is the reply of an error.
func refuse(status int, err error) Reply {
	w := newReplyWriter()
	WriteError(w, status, err)
	return w.reply()
}
