package simredis

import (
	"bytes"
	"encoding/binary"
	"sync"

	"weir/proxy/limit"
	"weir/proxy/store"
)

const (
	indexMin     = 8 // places
	indexFillMax = 7 // eighths of the places that may be used
)

// A stripe is one part of the table: records, and an index by hash with linear probing.
//
// Safe for concurrent use: its callers hold mu.
type stripe struct {
	mu      sync.Mutex
	index   []uint64 // hash<<32 | slot of the record plus 1; 0: empty
	records arena
	rests   map[uint32]limit.ExtraState // by slot, of the few records that have one
	live    int                         // number of records
	hand    int                         // place in the index where sweep continues
}

// find returns the record with that name and kind and its slot, or nil.
func (s *stripe) find(hash uint64, name []byte, kind limit.Kind) (r record, slot uint32) {
	if place := s.place(hash, name, kind); place >= 0 {
		return s.record(place), s.slot(place)
	}
	return nil, 0
}

// state returns the state of a record.
func (s *stripe) state(r record, slot uint32) (state limit.State) {
	state.Read(r.bytes())
	if r.hasRest() {
		state.SetExtra(s.rests[slot])
	}
	return state
}

// set writes a record.
func (s *stripe) set(r record, slot uint32, state *limit.State, expires int64) {
	state.Put(r.bytes())
	order.PutUint64(r[atExpires:], uint64(expires))
	switch rest := state.Extra(); {
	case rest != limit.ExtraState{}:
		if s.rests == nil {
			s.rests = make(map[uint32]limit.ExtraState)
		}
		s.rests[slot] = rest
		r.setRest(true)
	case r.hasRest():
		delete(s.rests, slot)
		r.setRest(false)
	}
}

// place returns the place in the index of the record with that name and kind, or -1.
func (s *stripe) place(hash uint64, name []byte, kind limit.Kind) int {
	if len(s.index) == 0 {
		return -1
	}
	mask := len(s.index) - 1
	for i := int(uint32(hash)) & mask; s.index[i] != 0; i = (i + 1) & mask {
		if uint32(s.index[i]>>32) == uint32(hash) {
			if r := s.record(i); r.kind() == kind && bytes.Equal(r.name(), name) {
				return i
			}
		}
	}
	return -1
}

// kinds returns the kinds of all records with that name.
func (s *stripe) kinds(hash uint64, name []byte) (kinds []limit.Kind) {
	if len(s.index) == 0 {
		return nil
	}
	mask := len(s.index) - 1
	for i := int(uint32(hash)) & mask; s.index[i] != 0; i = (i + 1) & mask {
		if uint32(s.index[i]>>32) == uint32(hash) && bytes.Equal(s.record(i).name(), name) {
			kinds = append(kinds, s.record(i).kind())
		}
	}
	return kinds
}

// record returns the record of a used place.
func (s *stripe) record(place int) record { return s.records.from(s.slot(place)) }

// slot returns the slot of that record.
func (s *stripe) slot(place int) uint32 { return uint32(s.index[place]) - 1 }

// insert adds a record for a name and a kind that the stripe does not have. It does not set the
// state, which contains the kind, nor the expiry.
func (s *stripe) insert(hash uint64, name []byte) (r record, slot uint32) {
	if 8*(s.live+1) > indexFillMax*len(s.index) {
		s.grow()
	}
	slot = s.records.take(atName + len(name))
	s.link(hash<<32 | uint64(slot+1))
	s.live++
	r = s.records.from(slot)
	order.PutUint16(r[atLength:], uint16(len(name)))
	copy(r[atName:], name)
	return r, slot
}

// link puts a value into the first empty place from its home on.
func (s *stripe) link(value uint64) {
	mask := len(s.index) - 1
	i := home(value) & mask
	for s.index[i] != 0 {
		i = (i + 1) & mask
	}
	s.index[i] = value
}

func (s *stripe) grow() {
	old := s.index
	s.index = make([]uint64, max(indexMin, 2*len(old)))
	s.hand = 0
	for _, value := range old {
		if value != 0 {
			s.link(value)
		}
	}
}

// remove frees the record of a place, and moves following entries so that no search ends early.
// When no record is left, it frees all memory.
func (s *stripe) remove(place int) {
	slot := s.slot(place)
	delete(s.rests, slot)
	s.records.release(slot, atName+s.record(place).nameLength())
	mask := len(s.index) - 1
	for i := (place + 1) & mask; s.index[i] != 0; i = (i + 1) & mask {
		if (i-home(s.index[i]))&mask >= (i-place)&mask {
			s.index[place] = s.index[i]
			place = i
		}
	}
	s.index[place] = 0
	s.live--
	if s.live == 0 {
		s.index, s.records, s.rests, s.hand = nil, arena{}, nil, 0
	}
}

// home returns the place where a value belongs, before the mask.
func home(value uint64) int { return int(value >> 32) }

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
