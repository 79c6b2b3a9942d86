package file

// slabChunk is how many values of a slab are allocated together, so that a slab grows without
// copying.
const slabChunk = 1 << 10

// A slab keeps values under small numbers, counted from 1; 0 means none. Values contain no
// pointers, so the garbage collector does not scan them.
//
// Not safe for concurrent use.
type slab[T any] struct {
	chunks []*[slabChunk]T
	used   uint32
	free   []uint32
}

// add returns the number of a new zero value.
func (s *slab[T]) add() uint32 {
	if n := len(s.free); n > 0 {
		i := s.free[n-1]
		s.free = s.free[:n-1]
		return i
	}
	s.used++
	if int(s.used/slabChunk) == len(s.chunks) {
		s.chunks = append(s.chunks, new([slabChunk]T))
	}
	return s.used
}

func (s *slab[T]) at(i uint32) *T { return &s.chunks[i/slabChunk][i%slabChunk] }

// remove clears value number i and frees its number.
func (s *slab[T]) remove(i uint32) {
	var zero T
	*s.at(i) = zero
	s.free = append(s.free, i)
}
