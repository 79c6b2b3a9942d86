package accesslog

import "sync/atomic"

// ringBytes is how much of a loop's lines waits to be written; beyond, lines are dropped.
const ringBytes = 1 << 20

// A Ring takes the lines of one loop to the writer. Putting never waits: there is one
// that puts and one that takes, and no lock between them.
//
// Safe for concurrent use: by one loop that puts, and the Writer. head and tail count
// bytes and never go back.
type Ring struct {
	bytes   []byte
	head    atomic.Uint64 // taken up to there; stored by the writer
	tail    atomic.Uint64 // put up to there; stored by the loop
	dropped atomic.Uint64 // lines for which there was no room
	wake    chan struct{} // of the Writer
}

// Put takes a whole line over, which is borrowed. When there is no room the line is
// dropped and counted.
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

// take appends what was put, and makes room.
func (r *Ring) take(dst []byte) []byte {
	head, tail, size := r.head.Load(), r.tail.Load(), uint64(len(r.bytes))
	at := head % size
	first := r.bytes[at:min(size, at+tail-head)]
	dst = append(dst, first...)
	dst = append(dst, r.bytes[:tail-head-uint64(len(first))]...)
	r.head.Store(tail)
	return dst
}
