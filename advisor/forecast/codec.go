package forecast

import (
	"encoding/binary"
	"math"
)

// A codec walks over the numbers of a value, writing or reading them. A type has one
// walk for both directions, so that what is written and what is read cannot differ.
type codec struct {
	reading bool
	b       []byte // what was written, or what is left to read
	bad     bool   // reading: there was too little, or a number that cannot be
}

func (c *codec) u64(v *uint64) {
	if !c.reading {
		c.b = binary.LittleEndian.AppendUint64(c.b, *v)
		return
	}
	if len(c.b) < 8 {
		c.bad = true
		return
	}
	*v = binary.LittleEndian.Uint64(c.b)
	c.b = c.b[8:]
}

func (c *codec) f64(vs ...*float64) {
	for _, v := range vs {
		u := math.Float64bits(*v)
		c.u64(&u)
		*v = math.Float64frombits(u)
	}
}

func (c *codec) int(vs ...*int) {
	for _, v := range vs {
		u := uint64(*v)
		c.u64(&u)
		*v = int(u)
	}
}

func (c *codec) bool(v *bool) {
	u := uint64(0)
	if *v {
		u = 1
	}
	c.u64(&u)
	*v = u == 1
}

// all walks over the numbers of a slice whose length is known.
func (c *codec) all(s []float64) {
	for i := range s {
		c.f64(&s[i])
	}
}

// count walks over a length and returns it; one above most is bad and counts as 0.
func (c *codec) count(n, most int) int {
	c.int(&n)
	if n < 0 || n > most {
		c.bad = true
		return 0
	}
	return n
}

// bytes walks over a string of bytes.
func (c *codec) bytes(s *[]byte, most int) {
	n := c.count(len(*s), most)
	if !c.reading {
		c.b = append(c.b, *s...)
		return
	}
	if n > len(c.b) {
		c.bad = true
		return
	}
	*s, c.b = c.b[:n:n], c.b[n:]
}
