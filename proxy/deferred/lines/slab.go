package lines

// slabChunk is how many values of a slab are allocated together, so that a slab grows
// without being copied.
const slabChunk = 1 << 10

// A slab keeps values under small numbers from 1 on; 0 stands for none. Values hold no
// pointers, so that the garbage collector passes them over.
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

// at returns the value number i.
func (s *slab[T]) at(i uint32) *T { return &s.chunks[i/slabChunk][i%slabChunk] }

// remove has the value number i be zero and its number used again.
func (s *slab[T]) remove(i uint32) {
	var zero T
	*s.at(i) = zero
	s.free = append(s.free, i)
}
