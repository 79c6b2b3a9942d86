package simredis

import (
	"encoding/binary"

	"weir/proxy/limit"
	"weir/proxy/store"
)

// A record is what the table knows of one key, in an arena, so that a lookup
// touches one place in memory:
//
//	0   state
//	32  expires: µs since the epoch; from then on the key is as one never seen
//	40  length of the name, and in the highest bit whether the state has a rest, which
//	    the stripe keeps beside
//	42  name
//
// It goes on to the end of its page, behind the name with other records.
type record []byte

const (
	atExpires      = limit.StateBytes
	atLength       = atExpires + 8
	atName         = atLength + 2
	recordBytesMax = atName + store.KeyBytesMax

	restBit = 1 << 15
)

var order = binary.LittleEndian

func (r record) expires() int64 { return int64(order.Uint64(r[atExpires:])) }

func (r record) nameLength() int { return int(order.Uint16(r[atLength:]) &^ restBit) }

func (r record) name() []byte { return r[atName : atName+r.nameLength()] }

// length is how many bytes of the arena the record takes.
func (r record) length() int { return atName + r.nameLength() }

func (r record) hasRest() bool { return order.Uint16(r[atLength:])&restBit != 0 }

func (r record) setRest(has bool) {
	length := uint16(r.nameLength())
	if has {
		length |= restBit
	}
	order.PutUint16(r[atLength:], length)
}

// state is what the record says, without the rest.
func (r record) state() (s limit.State) {
	s.Read(r.bytes())
	return s
}

// kind is the kind of limits under which the record is kept. With the name it tells
// records apart.
func (r record) kind() limit.Kind { return limit.KindIn(r.bytes()) }

// bytes is that as bytes.
func (r record) bytes() *[limit.StateBytes]byte { return (*[limit.StateBytes]byte)(r) }

func (r record) set(s *limit.State, expires int64) {
	s.Put(r.bytes())
	order.PutUint64(r[atExpires:], uint64(expires))
}

func (r record) setName(name []byte) {
	order.PutUint16(r[atLength:], uint16(len(name)))
	copy(r[atName:], name)
}
