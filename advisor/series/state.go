package series

import (
	"fmt"
	"math"

	"weir/advisor/codec"
)

// word and version are the header written by Encode.
const (
	word    = "weir series"
	version = 1
)

// Encode encodes the history.
func (h *History) Encode() []byte { return codec.Marshal(word, version, h.walk) }

// Decode returns the encoded history. An error wraps [codec.ErrMalformed].
func Decode(b []byte) (*History, error) {
	h := New()
	if err := codec.Unmarshal(b, word, version, h.walk); err != nil {
		return nil, fmt.Errorf("read history: %w", err)
	}
	return h, nil
}

func (h *History) walk(c *codec.Codec) {
	c.Int64(&h.first, &h.newest, &h.seen)
	count := int64(len(h.raw))
	c.Int64(&count)
	if !c.Require(count >= 0 && count <= rawMax && h.seen >= count) {
		return
	}
	if c.Decoding {
		h.raw = make([]sample, count)
	}
	for i := range h.raw {
		s := &h.raw[i]
		c.Int64(&s.at, &s.interval)
		c.Float(&s.rate)
		c.Require(s.at <= h.newest && s.rate >= 0 && !math.IsInf(s.rate, 0))
	}
	for i := range h.rings {
		h.rings[i].walk(c)
	}
}

// walk passes the buckets from the oldest to the newest.
func (r *ring) walk(c *codec.Codec) {
	c.Int64(&r.oldest, &r.newest)
	if r.newest == math.MinInt64 {
		return
	}
	if n := r.newest - r.oldest; !c.Require(r.oldest <= r.newest && n >= 0 && n < int64(len(r.mean))) {
		return
	}
	for i := r.oldest; i <= r.newest; i++ {
		s := r.slot(i)
		c.Float(&r.mean[s])
		c.Float32(&r.covered[s])
		c.Require(r.mean[s] >= 0 && !math.IsInf(r.mean[s], 0) && r.covered[s] >= 0 && float64(r.covered[s]) <= r.width)
	}
}
