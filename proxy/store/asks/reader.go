package asks

import (
	"encoding/binary"
	"fmt"
	"math"
	"time"
)

// A reader reads numbers and texts in order. It keeps the first fault, after which it returns
// zeros.
type reader struct {
	b     []byte
	at    int
	fault *MessageError
}

func (r *reader) fail(at int, problem string) {
	if r.fault == nil {
		r.fault = &MessageError{at, problem}
	}
}

// bytes reads n bytes, which are borrowed from b.
func (r *reader) bytes(n int) []byte {
	if r.fault == nil && n > len(r.b)-r.at {
		r.fail(r.at, "the message ends too early")
	}
	if r.fault != nil {
		return nil
	}
	part := r.b[r.at : r.at+n : r.at+n]
	r.at += n
	return part
}

func (r *reader) u8() byte { return byte(r.unsigned(1)) }

func (r *reader) u16() int { return r.unsigned(2) }

func (r *reader) u32() int { return r.unsigned(4) }

func (r *reader) unsigned(size int) (n int) {
	for i, b := range r.bytes(size) {
		n |= int(b) << (8 * i)
	}
	return n
}

// number reads a number that is not negative.
func (r *reader) number() int64 { return r.upTo(math.MaxInt64) }

// span reads a duration in microseconds.
func (r *reader) span() time.Duration { return time.Duration(r.upTo(spanMax)) * time.Microsecond }

func (r *reader) upTo(most int64) int64 {
	at := r.at
	b := r.bytes(8)
	if b == nil {
		return 0
	}
	n := binary.LittleEndian.Uint64(b)
	if n > uint64(most) {
		r.fail(at, fmt.Sprintf("must be 0 to %d", most))
		return 0
	}
	return int64(n)
}

// end checks that nothing follows.
func (r *reader) end() {
	if r.at < len(r.b) {
		r.fail(r.at, "the message should end here")
	}
}
