package series

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
)

// magic and version begin what MarshalBinary writes; a CRC-32 ends it.
const (
	magic   = "weir series"
	version = 1
)

// ErrState says that bytes are not the state of a history.
var ErrState = errors.New("not a history of this version")

// MarshalBinary writes everything; the error is always nil.
func (h *History) MarshalBinary() ([]byte, error) {
	out := append([]byte(magic), version)
	out = binary.LittleEndian.AppendUint64(out, uint64(h.first0))
	out = binary.LittleEndian.AppendUint64(out, uint64(h.newest))
	out = binary.LittleEndian.AppendUint64(out, uint64(h.seen))
	out = binary.LittleEndian.AppendUint64(out, uint64(len(h.raw)-h.first))
	for _, s := range h.raw[h.first:] {
		out = binary.LittleEndian.AppendUint64(out, uint64(s.at))
		out = binary.LittleEndian.AppendUint64(out, uint64(s.interval))
		out = binary.LittleEndian.AppendUint64(out, math.Float64bits(s.rate))
	}
	for i := range h.rings {
		out = h.rings[i].append(out)
	}
	return binary.LittleEndian.AppendUint32(out, crc32.ChecksumIEEE(out)), nil
}

// append writes the buckets from the oldest to the newest.
func (r *ring) append(out []byte) []byte {
	out = binary.LittleEndian.AppendUint64(out, uint64(r.oldest))
	out = binary.LittleEndian.AppendUint64(out, uint64(r.newest))
	if r.newest == math.MinInt64 {
		return out
	}
	for i := r.oldest; i <= r.newest; i++ {
		s := r.slot(i)
		out = binary.LittleEndian.AppendUint64(out, math.Float64bits(r.mean[s]))
		out = binary.LittleEndian.AppendUint32(out, math.Float32bits(r.covered[s]))
	}
	return out
}

// UnmarshalBinary makes h what was written. On an error ([ErrState]) h is as before.
func (h *History) UnmarshalBinary(b []byte) error {
	if len(b) < len(magic)+1+4 || string(b[:len(magic)]) != magic {
		return fmt.Errorf("read history: %d bytes: %w", len(b), ErrState)
	}
	if v := b[len(magic)]; v != version {
		return fmt.Errorf("read history: version %d, must be %d: %w", v, version, ErrState)
	}
	body := b[:len(b)-4]
	if crc32.ChecksumIEEE(body) != binary.LittleEndian.Uint32(b[len(b)-4:]) {
		return fmt.Errorf("read history: the checksum is wrong: %w", ErrState)
	}
	rd := reader{b: body[len(magic)+1:]}
	n := New()
	n.first0, n.newest, n.seen = rd.int(), rd.int(), rd.int()
	count := rd.int()
	if count < 0 || count > rawMax || n.seen < count {
		return fmt.Errorf("read history: %d rates as they came, at most %d are kept: %w", count, rawMax, ErrState)
	}
	for range count {
		s := sample{at: rd.int(), interval: rd.int(), rate: rd.float()}
		if s.at > n.newest || !(s.rate >= 0) || math.IsInf(s.rate, 0) {
			return fmt.Errorf("read history: a rate of %v at %d: %w", s.rate, s.at, ErrState)
		}
		n.raw = append(n.raw, s)
	}
	for i := range n.rings {
		if err := n.rings[i].read(&rd); err != nil {
			return err
		}
	}
	if rd.short || len(rd.b) > 0 {
		return fmt.Errorf("read history: its length is wrong: %w", ErrState)
	}
	*h = *n
	return nil
}

func (r *ring) read(rd *reader) error {
	oldest, newest := rd.int(), rd.int()
	if newest == math.MinInt64 {
		return nil
	}
	if oldest > newest || newest-oldest >= int64(len(r.mean)) || rd.short {
		return fmt.Errorf("read history: buckets %d to %d of %gs, at most %d are kept: %w", oldest, newest, r.width, len(r.mean), ErrState)
	}
	r.oldest, r.newest = oldest, newest
	for i := oldest; i <= newest; i++ {
		s := r.slot(i)
		mean, covered := rd.float(), float64(rd.float32())
		if !(mean >= 0) || math.IsInf(mean, 0) || !(covered >= 0) || covered > r.width {
			return fmt.Errorf("read history: bucket %d of %gs: %v over %vs: %w", i, r.width, mean, covered, ErrState)
		}
		r.mean[s], r.covered[s] = mean, float32(covered)
	}
	return nil
}

// A reader takes numbers off its bytes; short when there were too few.
type reader struct {
	b     []byte
	short bool
}

func (r *reader) take(n int) []byte {
	if len(r.b) < n {
		r.short = true
		return make([]byte, n)
	}
	out := r.b[:n]
	r.b = r.b[n:]
	return out
}

func (r *reader) int() int64     { return int64(binary.LittleEndian.Uint64(r.take(8))) }
func (r *reader) float() float64 { return math.Float64frombits(binary.LittleEndian.Uint64(r.take(8))) }
func (r *reader) float32() float32 {
	return math.Float32frombits(binary.LittleEndian.Uint32(r.take(4)))
}
