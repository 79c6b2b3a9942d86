package simredis

const (
	pageBytes = 4096
	unitBytes = 8 // slots are whole units
	pageUnits = pageBytes / unitBytes
	slotUnits = (recordBytesMax + unitBytes - 1) / unitBytes
)

// An arena allocates slots of 1 to recordBytesMax bytes in pages. A slot is identified by its
// offset in units. A freed slot is reused for slots of the same number of units. Slots never
// move.
//
// Owned by its stripe.
type arena struct {
	pages []*[pageBytes]byte
	used  int                   // units of the last page that are taken
	free  [slotUnits + 1]uint32 // by units: the first free slot plus 1, whose first bytes have the next one
}

// from returns the memory from the beginning of a slot to the end of its page.
func (a *arena) from(slot uint32) []byte {
	return a.pages[slot/pageUnits][slot%pageUnits*unitBytes:]
}

// take allocates a slot with undefined content.
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

// release frees a slot of that length.
func (a *arena) release(slot uint32, length int) {
	units := unitsOf(length)
	order.PutUint32(a.from(slot), a.free[units])
	a.free[units] = slot + 1
}

func unitsOf(length int) int { return (length + unitBytes - 1) / unitBytes }
