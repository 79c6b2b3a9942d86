// Package codec encodes numbers as bytes and decodes them. A type has one function that
// visits its numbers, which is used for encoding and for decoding, so the two cannot
// differ.
package codec

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
)

// A Codec is passed each number of a walk.
//
// Owned by one walk.
type Codec struct {
	Decoding bool
	b        []byte // written bytes, or bytes left to read
	bad      bool   // reading: too short, or an invalid number
}

// ErrMalformed says that bytes do not have the expected form.
var ErrMalformed = errors.New("not a state of this version")

// Marshal returns what walk writes, between a header (a word and a version) and a CRC-32.
func Marshal(word string, version byte, walk func(*Codec)) []byte {
	c := &Codec{b: append([]byte(word), version)}
	walk(c)
	return binary.LittleEndian.AppendUint32(c.b, crc32.ChecksumIEEE(c.b))
}

// Unmarshal lets walk read what Marshal wrote. The error wraps ErrMalformed and says why.
func Unmarshal(b []byte, word string, version byte, walk func(*Codec)) error {
	head := len(word) + 1
	switch {
	case len(b) < head+4 || string(b[:head-1]) != word:
		return fmt.Errorf("%d bytes: %w", len(b), ErrMalformed)
	case b[head-1] != version:
		return fmt.Errorf("version %d, must be %d: %w", b[head-1], version, ErrMalformed)
	case crc32.ChecksumIEEE(b[:len(b)-4]) != binary.LittleEndian.Uint32(b[len(b)-4:]):
		return fmt.Errorf("the checksum is wrong: %w", ErrMalformed)
	}
	c := &Codec{Decoding: true, b: b[head : len(b)-4]}
	walk(c)
	if c.bad || len(c.b) > 0 {
		return fmt.Errorf("its length or a number is wrong: %w", ErrMalformed)
	}
	return nil
}

// Copy lets one walk read what another writes.
func Copy(from, to func(*Codec)) {
	c := &Codec{}
	from(c)
	to(&Codec{Decoding: true, b: c.b})
}

// Require marks the data as invalid unless ok.
func (c *Codec) Require(ok bool) bool {
	c.bad = c.bad || !ok
	return !c.bad
}

// next returns the next n bytes to write or to read.
func (c *Codec) next(n int) []byte {
	if !c.Decoding {
		c.b = append(c.b, make([]byte, n)...)
		return c.b[len(c.b)-n:]
	}
	if !c.Require(n <= len(c.b)) {
		return make([]byte, n)
	}
	b := c.b[:n:n]
	c.b = c.b[n:]
	return b
}

func (c *Codec) u64(v uint64) uint64 {
	b := c.next(8)
	if !c.Decoding {
		binary.LittleEndian.PutUint64(b, v)
	}
	return binary.LittleEndian.Uint64(b)
}

// Float passes numbers.
func (c *Codec) Float(vs ...*float64) {
	for _, v := range vs {
		*v = math.Float64frombits(c.u64(math.Float64bits(*v)))
	}
}

// Float32 passes a number in single precision.
func (c *Codec) Float32(v *float32) {
	b := c.next(4)
	if !c.Decoding {
		binary.LittleEndian.PutUint32(b, math.Float32bits(*v))
	}
	*v = math.Float32frombits(binary.LittleEndian.Uint32(b))
}

// Floats passes the numbers of a slice of known length.
func (c *Codec) Floats(s []float64) {
	for i := range s {
		c.Float(&s[i])
	}
}

// Int passes integers.
func (c *Codec) Int(vs ...*int) {
	for _, v := range vs {
		*v = int(c.u64(uint64(*v)))
	}
}

// Int64 passes integers.
func (c *Codec) Int64(vs ...*int64) {
	for _, v := range vs {
		*v = int64(c.u64(uint64(*v)))
	}
}

// Bool passes a boolean.
func (c *Codec) Bool(v *bool) {
	u := uint64(0)
	if *v {
		u = 1
	}
	*v = c.u64(u) == 1
}

// Len passes a length and returns it. A length outside 0 to most is invalid, and 0 is
// returned.
func (c *Codec) Len(n, most int) int {
	if c.Int(&n); !c.Require(n >= 0 && n <= most) {
		return 0
	}
	return n
}

// Text passes a string of at most the given number of bytes.
func (c *Codec) Text(s *string, most int) {
	b := c.next(c.Len(len(*s), most))
	if !c.Decoding {
		copy(b, *s)
	}
	*s = string(b)
}
