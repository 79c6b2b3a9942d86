package deferred

import (
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"weir/internal/net/share"
)

// Bounds of the list. A put beyond them is answered PutFailed. One client has a share of both, see
// [share.Usage.Admits]; beyond, its puts are answered Full.
const (
	pendingMax      = 16384
	pendingBytesMax = 64 << 20
)

// A WriteBuffer is a bounded list of the operations that wait to be written to a queue, until the writer
// takes them. It also records whether the queue can be written.
//
// Safe for concurrent use: mu guards all fields except wake.
type WriteBuffer[T any] struct {
	wake chan struct{} // capacity 1

	mu      sync.Mutex
	waiting []item[T]
	bytes   int
	puts    share.Usage // waiting puts of clients
	sizes   share.Usage // their bytes
	storing map[SHA256]struct{}
	broken  error
	closed  bool
}

type item[T any] struct {
	op     T
	bytes  int
	client share.Client // of a put; zero: it counts for none
}

// NewWriteBuffer returns an empty WriteBuffer.
func NewWriteBuffer[T any]() *WriteBuffer[T] {
	return &WriteBuffer[T]{wake: make(chan struct{}, 1), storing: make(map[SHA256]struct{})}
}

// Wake returns a channel that receives after something was added, and after Notify.
func (b *WriteBuffer[T]) Wake() <-chan struct{} { return b.wake }

// Notify wakes the writer.
func (b *WriteBuffer[T]) Notify() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// Put adds a put. If there is no room, or the queue cannot be written, it is answered PutFailed;
// until Stored is called for it, other puts with the same Scope are answered Storing. ok is false
// if the put was answered.
func (b *WriteBuffer[T]) Put(op T, p *PutRequest) (ok bool) {
	refused, ok := b.offer(op, p)
	if !ok {
		p.Done(refused)
	}
	return ok
}

func (b *WriteBuffer[T]) offer(op T, p *PutRequest) (refused PutResult, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, storing := b.storing[p.Entry.Scope]
	size, client := int(p.Entry.Size()), p.Entry.Client()
	switch {
	case b.err() != nil:
		return PutFailed(b.err()), false
	case storing:
		return PutResult{Outcome: Storing}, false
	case len(b.waiting) >= pendingMax || b.bytes+size > pendingBytesMax:
		return PutFailed(fmt.Errorf("%d entries are already waiting to be written", len(b.waiting))), false
	case client != (share.Client{}) &&
		!(b.puts.Admits(client, 1, pendingMax) && b.sizes.Admits(client, int64(size), pendingBytesMax)):
		return PutResult{Outcome: Full, Bound: BoundShare}, false
	}
	if p.Entry.Keyed() {
		b.storing[p.Entry.Scope] = struct{}{}
	}
	b.add(item[T]{op, size, client})
	return refused, true
}

// PutFailed returns the result of a put that could not be written because of why.
func PutFailed(why error) PutResult {
	return PutResult{Outcome: Unstored, Err: why}
}

// Stored answers a put that was added.
func (b *WriteBuffer[T]) Stored(p *PutRequest, s PutResult) {
	b.mu.Lock()
	delete(b.storing, p.Entry.Scope)
	b.mu.Unlock()
	p.Done(s)
}

// Add adds an op to which the bounds do not apply. The error is deferred.ErrClosed.
func (b *WriteBuffer[T]) Add(op T, bytes int) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return ErrClosed
	}
	b.add(item[T]{op: op, bytes: bytes})
	return nil
}

func (b *WriteBuffer[T]) add(w item[T]) {
	b.waiting = append(b.waiting, w)
	b.bytes += w.bytes
	b.hold(w, 1)
	b.Notify()
}

// hold counts an item n times in the share of its client.
func (b *WriteBuffer[T]) hold(w item[T], n int64) {
	if w.client != (share.Client{}) {
		b.puts.Add(w.client, n)
		b.sizes.Add(w.client, n*int64(w.bytes))
	}
}

// Return adds an op again that was taken and not written, even if the buffer is closed. It does not
// wake the writer, because the writer calls it.
func (b *WriteBuffer[T]) Return(op T, bytes int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waiting = append(b.waiting, item[T]{op: op, bytes: bytes})
	b.bytes += bytes
}

// All removes and returns all ops.
func (b *WriteBuffer[T]) All() []T { return b.Dequeue(math.MaxInt, math.MaxInt) }

// Dequeue removes and returns ops in the order in which they were added: at most that many ops and
// bytes, but at least one op.
func (b *WriteBuffer[T]) Dequeue(most, bytesMost int) (ops []T) {
	b.mu.Lock()
	defer b.mu.Unlock()
	bytes := 0
	for _, w := range b.waiting[:min(most, len(b.waiting))] {
		if len(ops) > 0 && bytes+w.bytes > bytesMost {
			break
		}
		bytes += w.bytes
		b.hold(w, -1)
		ops = append(ops, w.op)
	}
	b.waiting = slices.Delete(b.waiting, 0, len(ops))
	b.bytes -= bytes
	return ops
}

// Fail records why the queue cannot be written, and returns the previous reason.
func (b *WriteBuffer[T]) Fail(why error) (before error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	before, b.broken = b.broken, why
	return before
}

// Recover records that the queue can be written, and wakes the writer.
func (b *WriteBuffer[T]) Recover() {
	_ = b.Fail(nil) // the previous reason is known
	b.Notify()
}

// Run calls write whenever something was added, and at each tick, until the buffer is closed. It also
// does so while the queue cannot be written, but calls mend first at a tick.
func (b *WriteBuffer[T]) Run(ticks <-chan time.Time, write, mend func()) {
	for !b.Closed() {
		select {
		case <-b.wake:
		case <-ticks:
			if b.Failure() != nil {
				mend()
			}
		}
		write()
	}
}

// Close prevents further additions, wakes the writer, and reports whether the buffer was open.
func (b *WriteBuffer[T]) Close() (first bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	first, b.closed = !b.closed, true
	b.Notify()
	return first
}

// Closed reports whether the buffer is closed.
func (b *WriteBuffer[T]) Closed() bool { return b.Err() == ErrClosed }

// Failure returns why the queue cannot be written, even if the buffer is closed, or nil.
func (b *WriteBuffer[T]) Failure() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.broken
}

// Err returns deferred.ErrClosed, or why the queue cannot be written, or nil.
func (b *WriteBuffer[T]) Err() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.err()
}

func (b *WriteBuffer[T]) err() error {
	if b.closed {
		return ErrClosed
	}
	return b.broken
}
