package exchange

// A step is a row of a table of states: when one state gives way to another.
// doc.go has the tables.
type step[S ~uint8] struct {
	from S
	when string
	to   S
}

// follow returns, by state, the set of the states that may follow it, a bit for
// each.
func follow[S ~uint8](steps []step[S]) (next [16]uint16) {
	for _, s := range steps {
		next[s.from] |= 1 << s.to
	}
	return next
}
