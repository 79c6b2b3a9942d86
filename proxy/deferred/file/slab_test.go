package file

import "testing"

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
