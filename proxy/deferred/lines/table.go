package lines

// A table finds values of a slab by a hash. It is an open-addressed hash table of their numbers,
// with 4 bytes each and as much free space, while a map would also hold the keys.
//
// Not safe for concurrent use.
type table struct {
	slots  []uint32 // 0: free; the length is a power of two
	used   int
	hashOf func(i uint32) uint64 // must not change for a value in the table
}

// find returns the number of the value with that hash for which is returns true, or 0.
func (t *table) find(hash uint64, is func(i uint32) bool) uint32 {
	if len(t.slots) == 0 {
		return 0
	}
	for at := t.home(hash); t.slots[at] != 0; at = t.after(at) {
		if i := t.slots[at]; t.hashOf(i) == hash && is(i) {
			return i
		}
	}
	return 0
}

// add adds number i, which must not be in the table.
func (t *table) add(i uint32) {
	if 4*(t.used+1) > 3*len(t.slots) {
		old := t.slots
		t.slots = make([]uint32, max(16, 2*len(old)))
		for _, i := range old {
			if i != 0 {
				t.place(i)
			}
		}
	}
	t.used++
	t.place(i)
}

// remove removes number i, if it is in the table, and moves following entries so that they can
// still be found.
func (t *table) remove(i uint32) {
	if len(t.slots) == 0 {
		return
	}
	at := t.home(t.hashOf(i))
	for ; t.slots[at] != i; at = t.after(at) {
		if t.slots[at] == 0 {
			return
		}
	}
	t.used--
	for next := t.after(at); t.slots[next] != 0; next = t.after(next) {
		if mask := len(t.slots) - 1; (next-t.home(t.hashOf(t.slots[next])))&mask >= (next-at)&mask {
			t.slots[at] = t.slots[next]
			at = next
		}
	}
	t.slots[at] = 0
}

func (t *table) place(i uint32) {
	at := t.home(t.hashOf(i))
	for t.slots[at] != 0 {
		at = t.after(at)
	}
	t.slots[at] = i
}

func (t *table) home(hash uint64) int { return int(hash & uint64(len(t.slots)-1)) }

func (t *table) after(at int) int { return (at + 1) & (len(t.slots) - 1) }
