package limit

import (
	"encoding/binary"
	"strconv"
)

// A State is what one key has consumed. The zero State is that of a new key. A State
// stores as much of its limit as is needed for the amounts to change between two
// calls; see [Limit.Take]. A copy shares the log of the original; see [State.Clone].
//
// Owned by its loop, or by the store that keeps it.
type State struct {
	tag uint64 // tagOf the limit; 0: never seen
	at  int64  // the latest instant at which something was taken or given, µs since the epoch
	a   int64  // fixed: count; sliding: count of this window; token, gcra, leaky: parts ahead; sliding_log: count
	// sliding: count of the previous window; gcra: the limit; token: instant from which at most the capacity is owed, or 0
	b    int64
	rest ExtraState
}

// An ExtraState is the part of a State that only some limits use: the log of [SlidingLog], and when
// a soft limit was exceeded. The zero value is empty.
type ExtraState struct {
	log   *Log
	began int64 // when overshoot began to be used; 0: it may be used
	under int64 // instant from which the key is within its limit, as of when it was last exceeded
}

// Extra returns the part that [State.Put] leaves out.
func (s *State) Extra() ExtraState { return s.rest }

// SetExtra puts back what [State.Extra] returned.
func (s *State) SetExtra(r ExtraState) { s.rest = r }

// Clone returns a copy that shares nothing with s.
func (s *State) Clone() State {
	c := *s
	if s.rest.log != nil {
		log := s.rest.log.copied(len(s.rest.log.ring))
		c.rest.log = &log
	}
	return c
}

// back returns s as it would be if the clock had shown now at its latest instant, so that what was
// taken comes back from now on. The entries of a log that count become one.
func (s *State) back(now int64) State {
	b, ahead := *s, s.at-now
	b.at = now
	if tagAlgorithm(s.tag) == Token && s.b > 0 {
		b.b -= ahead
	}
	if s.rest.began != 0 {
		b.rest.began, b.rest.under = s.rest.began-ahead, s.rest.under-ahead
	}
	if tagAlgorithm(s.tag) == SlidingLog {
		l, v := s.limit(), view{}
		l.settle(s.at, s, &v)
		b.a, b.rest.log = -v.free, nil // of a limit of 0 permits
		if b.a > 0 {
			b.rest.log = new(Log)
			b.rest.log.push(entry{now, 0})
		}
	}
	return b
}

// StateBytes is the encoded length of a State without its ExtraState.
const StateBytes = 32

// Put writes s to b without its ExtraState, for stores that keep states as bytes: four
// little-endian 64-bit numbers in the order of the fields. The first holds the
// [Algorithm] in its highest byte, and [Limit.WindowOrRate] below it.
func (s *State) Put(b *[StateBytes]byte) {
	binary.LittleEndian.PutUint64(b[0:], s.tag)
	binary.LittleEndian.PutUint64(b[8:], uint64(s.at))
	binary.LittleEndian.PutUint64(b[16:], uint64(s.a))
	binary.LittleEndian.PutUint64(b[24:], uint64(s.b))
}

// Read sets s to what [State.Put] wrote to b. It does not check b.
func (s *State) Read(b *[StateBytes]byte) {
	s.tag = binary.LittleEndian.Uint64(b[0:])
	s.at = int64(binary.LittleEndian.Uint64(b[8:]))
	s.a = int64(binary.LittleEndian.Uint64(b[16:]))
	s.b = int64(binary.LittleEndian.Uint64(b[24:]))
	s.rest = ExtraState{}
}

// EqualBytes reports whether [State.Put] would write b. Every call that changes a State changes
// those bytes, too.
func (s *State) EqualBytes(b *[StateBytes]byte) bool {
	return s.tag == binary.LittleEndian.Uint64(b[0:]) &&
		uint64(s.at) == binary.LittleEndian.Uint64(b[8:]) &&
		uint64(s.a) == binary.LittleEndian.Uint64(b[16:]) &&
		uint64(s.b) == binary.LittleEndian.Uint64(b[24:])
}

// The encoding of a whole State: what Put writes; then began and under, if there is a log
// or they are not 0; then the entries of the log, two 56-bit numbers each.
const (
	softBytes  = 16
	entryBytes = 14
)

// BytesMax is the most that [State.Append] appends of a key under l that was not kept under
// a larger limit before, and has no more debt than that.
func (l *Limit) BytesMax(debt int64) int {
	n := StateBytes + softBytes
	if l.algorithm == SlidingLog {
		n += entryBytes * int(max(debt, l.burst+l.overshoot))
	}
	return n
}

// Append appends all of s to dst, in the form in which scripts in other stores keep it.
func (s *State) Append(dst []byte) []byte {
	var b [StateBytes]byte
	s.Put(&b)
	dst = append(dst, b[:]...)
	if s.rest == (ExtraState{}) && tagAlgorithm(s.tag) != SlidingLog {
		return dst
	}
	dst = binary.LittleEndian.AppendUint64(dst, uint64(s.rest.began))
	dst = binary.LittleEndian.AppendUint64(dst, uint64(s.rest.under))
	if log := s.rest.log; log != nil {
		for i := range log.n {
			e := log.entry(i)
			dst = AppendLogEntry(dst, e.at, e.before)
		}
	}
	return dst
}

// AppendLogEntry appends a log entry in the form of [State.Append], for a store that keeps
// entries separately: the instant, and how many permits were admitted before it.
func AppendLogEntry(dst []byte, at, before int64) []byte {
	return appendNumber(appendNumber(dst, at), before)
}

// Parse sets s to what [State.Append] appended, and reports whether b has that form. The
// numbers themselves are not checked.
func (s *State) Parse(b []byte) bool {
	if len(b) < StateBytes {
		return false
	}
	s.Read((*[StateBytes]byte)(b))
	b = b[StateBytes:]
	logs := tagAlgorithm(s.tag) == SlidingLog
	if len(b) == 0 {
		return !logs
	}
	if len(b) < softBytes || !logs && len(b) > softBytes || (len(b)-softBytes)%entryBytes != 0 {
		return false
	}
	s.rest.began = int64(binary.LittleEndian.Uint64(b))
	s.rest.under = int64(binary.LittleEndian.Uint64(b[8:]))
	for b = b[softBytes:]; len(b) > 0; b = b[entryBytes:] {
		if s.rest.log == nil {
			s.rest.log = new(Log)
		}
		s.rest.log.push(entry{readNumber(b), readNumber(b[7:])})
	}
	if logs {
		s.b = 0 // the other store's layout of the log
	}
	return true
}

func appendNumber(dst []byte, n int64) []byte {
	return append(dst, byte(n), byte(n>>8), byte(n>>16), byte(n>>24), byte(n>>32), byte(n>>40), byte(n>>48))
}

func readNumber(b []byte) int64 {
	return int64(b[0]) | int64(b[1])<<8 | int64(b[2])<<16 | int64(b[3])<<24 | int64(b[4])<<32 | int64(b[5])<<40 |
		int64(b[6])<<48
}

// A Kind is what two limits must share so that a key keeps what it has consumed when one
// replaces the other: the algorithm, and the window if there is one. Stores count a key
// separately under each kind, so proxies that disagree about a limit admit at most the
// sum of what each would. The zero Kind is that of [Off] and of a key never seen.
type Kind uint64

// Kind returns the kind of the limit.
func (l *Limit) Kind() Kind { return kindOf(l.tag) }

// Kind returns the kind of the limits under which s is kept.
func (s *State) Kind() Kind { return kindOf(s.tag) }

// KindIn returns the kind of the State that [State.Put] wrote into b.
func KindIn(b *[StateBytes]byte) Kind { return kindOf(binary.LittleEndian.Uint64(b[0:])) }

// Append appends the kind as a word of letters, digits, _ and :, such as fixed:60000000
// or token: the algorithm, and the window in microseconds. Different kinds have different
// words.
func (k Kind) Append(dst []byte) []byte {
	dst = append(dst, tagAlgorithm(uint64(k)).String()...)
	if window := tagNumber(uint64(k)); window > 0 {
		dst = strconv.AppendInt(append(dst, ':'), window, 10)
	}
	return dst
}

// kindOf drops the rate from the tag of a bucket or a queue, because it is an amount.
func kindOf(tag uint64) Kind {
	if a := tagAlgorithm(tag); a == Token || a == Leaky {
		return Kind(tagOf(a, 0))
	}
	return Kind(tag)
}
