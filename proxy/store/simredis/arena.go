package simredis

const (
	pageBytes = 4096
	unitBytes = 8 // slots are whole units
	pageUnits = pageBytes / unitBytes
	slotUnits = (recordBytesMax + unitBytes - 1) / unitBytes
)

// An arena hands out slots in pages, from 1 byte to recordBytesMax. A slot is
// named by where it begins, in units; one that is given back is used again for
// slots of the same number of units. Slots never move.
//
// Owned by its stripe.
type arena struct {
	pages []*[pageBytes]byte
	used  int                   // units of the last page that are taken
	free  [slotUnits + 1]uint32 // by units: the first free slot plus 1; it holds the next in its first bytes
}

// from returns the memory from where slot begins to the end of its page.
func (a *arena) from(slot uint32) []byte {
	return a.pages[slot/pageUnits][slot%pageUnits*unitBytes:]
}

// take hands out a slot, with anything in it.
func (a *arena) take(length int) uint32 {
	units := unitsOf(length)
	if head := a.free[units]; head != 0 {
		a.free[units] = order.Uint32(a.from(head - 1))
		return head - 1
	}
	if len(a.pages) == 0 || a.used+units > pageUnits {
		a.pages = append(a.pages, new([pageBytes]byte))
		a.used = 0
	}
	slot := (len(a.pages)-1)*pageUnits + a.used
	a.used += units
	return uint32(slot)
}

// release gives a slot of that length back.
func (a *arena) release(slot uint32, length int) {
	units := unitsOf(length)
	order.PutUint32(a.from(slot), a.free[units])
	a.free[units] = slot + 1
}

func unitsOf(length int) int { return (length + unitBytes - 1) / unitBytes }
