package deferred

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math"
	"net/netip"
	"time"
)

// entryVersion is the version of the binary form:
//
//	u8 version, the fields of the entry in their order, u32 CRC-32C of all before
//
// Numbers are big-endian, texts are preceded by a u32 length, times are i64 µs since the
// epoch with 0 for the zero time. Each entry has exactly one form.
const entryVersion = 1

// Bits of an entry's flags.
const (
	flagTLS = 1 << iota
	flagHashes
	flagResult
	flagTruncated
	flagTrusted
	flagsEnd
)

// The errors of ParseEntry.
var (
	ErrVersion = errors.New("the entry is of a version that this program does not know")
	ErrDamaged = errors.New("the entry is damaged")
)

// castagnoli is the table of CRC-32C.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// AppendEntry appends the binary form of an entry to out.
func AppendEntry(out []byte, e *Entry) []byte {
	start := len(out)
	out = append(out, entryVersion)
	out = append(out, e.ID[:]...)
	out = append(out, e.flags(), byte(e.Order), byte(e.State))
	out = binary.BigEndian.AppendUint32(out, uint32(e.Parallel))
	out = binary.BigEndian.AppendUint32(out, uint32(e.Attempts))
	for _, t := range [...]time.Time{e.Accepted, e.Expires, e.Due, e.Last.At} {
		out = binary.BigEndian.AppendUint64(out, uint64(UnixMicros(t)))
	}
	remote, _ := e.Remote.MarshalBinary() // cannot fail
	out = appendField(out, remote)
	out = appendField(out, e.Rule)
	out = appendField(out, e.LineKey)
	out = appendField(out, e.Callback)
	out = appendField(out, e.Last.Error)
	out = binary.BigEndian.AppendUint16(out, uint16(e.Last.Status))
	out = appendField(out, e.Head)
	out = appendField(out, e.Body)
	if e.flags()&flagHashes != 0 {
		out = append(out, e.Scope[:]...)
		out = append(out, e.Fingerprint[:]...)
	}
	if r := e.Result; r != nil {
		out = binary.BigEndian.AppendUint16(out, uint16(r.Status))
		out = binary.BigEndian.AppendUint64(out, uint64(r.Bytes))
		out = appendField(out, r.Head)
		out = appendField(out, r.Body)
	}
	return binary.BigEndian.AppendUint32(out, crc32.Checksum(out[start:], castagnoli))
}

func (e *Entry) flags() (flags byte) {
	if e.TLS {
		flags |= flagTLS
	}
	if e.Trusted {
		flags |= flagTrusted
	}
	if e.Scope != (SHA256{}) || e.Fingerprint != (SHA256{}) {
		flags |= flagHashes
	}
	if e.Result != nil {
		flags |= flagResult
		if e.Result.Truncated {
			flags |= flagTruncated
		}
	}
	return flags
}

func appendField[T string | []byte](out []byte, field T) []byte {
	return append(binary.BigEndian.AppendUint32(out, uint32(len(field))), field...)
}

// UnixMicros returns a time in µs since the epoch, or 0 for the zero time.
func UnixMicros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

// FromUnixMicros is the inverse of UnixMicros.
func FromUnixMicros(us int64) time.Time {
	if us == 0 {
		return time.Time{}
	}
	return time.UnixMicro(us).UTC()
}

// ParseEntry parses what AppendEntry writes. The entry shares no memory with data. The error is
// ErrVersion or ErrDamaged.
func ParseEntry(data []byte) (*Entry, error) {
	switch {
	case len(data) < 5:
		return nil, ErrDamaged
	case crc32.Checksum(data[:len(data)-4], castagnoli) != binary.BigEndian.Uint32(data[len(data)-4:]):
		return nil, ErrDamaged
	case data[0] != entryVersion:
		return nil, ErrVersion
	}
	r := reader{left: data[1 : len(data)-4]}
	e := &Entry{}
	copy(e.ID[:], r.take(len(e.ID)))
	flags := r.u8()
	e.Order, e.State = Concurrency(r.u8()), State(r.u8())
	e.Parallel, e.Attempts = int(r.u32()), int(r.u32())
	for _, t := range [...]*time.Time{&e.Accepted, &e.Expires, &e.Due, &e.Last.At} {
		*t = FromUnixMicros(int64(r.u64()))
	}
	r.remote(&e.Remote)
	e.Rule, e.LineKey, e.Callback, e.Last.Error = r.text(), r.text(), r.text(), r.text()
	e.Last.Status = int(r.u16())
	e.Head, e.Body = r.bytes(), r.bytes()
	if flags&flagHashes != 0 {
		copy(e.Scope[:], r.take(len(e.Scope)))
		copy(e.Fingerprint[:], r.take(len(e.Fingerprint)))
	}
	if flags&flagResult != 0 {
		e.Result = &Result{Status: int(r.u16()), Bytes: int64(r.u64()), Truncated: flags&flagTruncated != 0}
		e.Result.Head, e.Result.Body = r.bytes(), r.bytes()
	}
	e.TLS, e.Trusted = flags&flagTLS != 0, flags&flagTrusted != 0
	if r.failed || len(r.left) > 0 || e.flags() != flags || e.Order > SeveralAtATime || e.State >= statesEnd {
		return nil, ErrDamaged
	}
	return e, nil
}

// A reader reads fields from bytes. When there are too few, failed is set, and everything read
// from then on is empty.
type reader struct {
	left   []byte
	failed bool
}

func (r *reader) take(n int) []byte {
	if r.failed || n > len(r.left) {
		r.failed = true
		return nil
	}
	taken := r.left[:n]
	r.left = r.left[n:]
	return taken
}

// number reads an unsigned number of n bytes, the most significant first.
func (r *reader) number(n int) (v uint64) {
	for _, c := range r.take(n) {
		v = v<<8 | uint64(c)
	}
	return v
}

func (r *reader) u8() byte    { return byte(r.number(1)) }
func (r *reader) u16() uint16 { return uint16(r.number(2)) }
func (r *reader) u32() uint32 { return uint32(r.number(4)) }
func (r *reader) u64() uint64 { return r.number(8) }

func (r *reader) field() []byte {
	n := r.u32()
	if n > math.MaxInt32 {
		r.failed = true
		return nil
	}
	return r.take(int(n))
}

func (r *reader) text() string { return string(r.field()) }

// bytes returns a copy of the next field, or nil if it is empty.
func (r *reader) bytes() []byte { return append([]byte(nil), r.field()...) }

// remote reads an address, and fails unless it is in its canonical form.
func (r *reader) remote(addr *netip.AddrPort) {
	data := r.field()
	if addr.UnmarshalBinary(data) != nil {
		r.failed = true
		return
	}
	if again, _ := addr.MarshalBinary(); string(again) != string(data) {
		r.failed = true
	}
}
