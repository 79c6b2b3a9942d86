package simredis

import (
	"encoding/binary"

	"weir/proxy/limit"
	"weir/proxy/store"
)

// A record has the data of one key, contiguous in an arena:
//
//	0   state
//	32  expires: µs since the epoch; from then on the key is like a new one
//	40  length of the name, and in the highest bit whether the stripe has a rest of the
//	    state
//	42  name
//
// The slice extends to the end of the page, so other records may follow the name.
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

func (r record) hasRest() bool { return order.Uint16(r[atLength:])&restBit != 0 }

func (r record) setRest(has bool) {
	length := uint16(r.nameLength())
	if has {
		length |= restBit
	}
	order.PutUint16(r[atLength:], length)
}

// kind returns the kind of limits of the record. Kind and name identify a record.
func (r record) kind() limit.Kind { return limit.KindIn(r.bytes()) }

// bytes returns the bytes of the state.
func (r record) bytes() *[limit.StateBytes]byte { return (*[limit.StateBytes]byte)(r) }
