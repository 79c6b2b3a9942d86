package limit

import (
	"encoding/binary"
	"strconv"
)

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
