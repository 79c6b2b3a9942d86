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
//	40  length of the name
//	42  name
//
// It goes on to the end of its page, behind the name with other records.
type record []byte

const (
	atExpires      = limit.StateBytes
	atLength       = atExpires + 8
	atName         = atLength + 2
	recordBytesMax = atName + store.KeyBytesMax
)

var order = binary.LittleEndian

func (r record) state() (s limit.State) {
	s.Read((*[limit.StateBytes]byte)(r))
	return s
}

func (r record) expires() int64 { return int64(order.Uint64(r[atExpires:])) }

func (r record) name() []byte { return r[atName : atName+int(order.Uint16(r[atLength:]))] }

// length is how many bytes of the arena the record takes.
func (r record) length() int { return atName + int(order.Uint16(r[atLength:])) }

func (r record) set(s *limit.State, expires int64) {
	s.Put((*[limit.StateBytes]byte)(r))
	order.PutUint64(r[atExpires:], uint64(expires))
}

func (r record) setName(name []byte) {
	order.PutUint16(r[atLength:], uint16(len(name)))
	copy(r[atName:], name)
}
