package accesslog

import "sync/atomic"

// ringBytes bounds the lines of a loop that wait to be written; further ones are dropped.
const ringBytes = 1 << 20

// A Ring passes the lines of one loop to the writer, without locks.
//
// Safe for concurrent use by one loop, which calls Put, and the Writer. head and tail count
// bytes and only increase.
type Ring struct {
	bytes   []byte
	head    atomic.Uint64 // bytes taken by the writer
	tail    atomic.Uint64 // bytes put by the loop
	dropped atomic.Uint64 // lines that did not fit
	wake    chan struct{} // wakes the Writer
}

// Put copies a whole line. If it does not fit it is dropped and counted.
func (r *Ring) Put(line []byte) {
	tail, size := r.tail.Load(), uint64(len(r.bytes))
	used := tail - r.head.Load()
	if uint64(len(line)) > size-used {
		r.dropped.Add(1)
		return
	}
	at := tail % size
	copy(r.bytes, line[copy(r.bytes[at:], line):])
	r.tail.Store(tail + uint64(len(line)))
	if used < size/2 && used+uint64(len(line)) >= size/2 {
		select {
		case r.wake <- struct{}{}:
		default: // it is awake
		}
	}
}

// take appends the lines to dst and frees their space.
func (r *Ring) take(dst []byte) []byte {
	head, tail, size := r.head.Load(), r.tail.Load(), uint64(len(r.bytes))
	at := head % size
	first := r.bytes[at:min(size, at+tail-head)]
	dst = append(dst, first...)
	dst = append(dst, r.bytes[:tail-head-uint64(len(first))]...)
	r.head.Store(tail)
	return dst
}
