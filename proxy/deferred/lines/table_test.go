package lines

import (
	"math/rand/v2"
	"testing"
)

// A table finds what a map finds, with hashes that collide, too.
func TestTable(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 1))
		spread := 1 + rng.Uint64N(1000)
		table := table{hashOf: func(i uint32) uint64 { return uint64(i) % spread * 13 }}
		there := make(map[uint32]bool)
		for range 3000 {
			i := 1 + rng.Uint32N(400)
			switch {
			case there[i] && rng.IntN(2) == 0:
				table.remove(i)
				delete(there, i)
			case !there[i] && rng.IntN(3) > 0:
				table.add(i)
				there[i] = true
			case !there[i]:
				table.remove(i)
			}
			i = 1 + rng.Uint32N(400)
			if got := table.find(table.hashOf(i), func(j uint32) bool { return i == j }); (got == i) != there[i] {
				t.Fatalf("seed %d: %d is found as %d, there is %v", seed, i, got, there[i])
			}
		}
		if table.used != len(there) || 4*table.used > 3*len(table.slots) {
			t.Fatalf("seed %d: %d used of %d, there are %d", seed, table.used, len(table.slots), len(there))
		}
	}
}

// A slab gives the numbers of values that are removed again, and zero values.
func TestSlab(t *testing.T) {
	t.Parallel()
	var s slab[int]
	for n := range 3 * slabChunk {
		if i := s.add(); int(i) != n+1 || *s.at(i) != 0 {
			t.Fatalf("number %d is %d, %d", n, i, *s.at(i))
		} else {
			*s.at(i) = n
		}
	}
	s.remove(7)
	s.remove(2048)
	if a, b := s.add(), s.add(); a != 2048 || b != 7 || *s.at(a) != 0 || *s.at(b) != 0 || *s.at(8) != 7 {
		t.Errorf("numbers %d and %d are given again", a, b)
	}
}
