package exchange

// A step is a row of a table of states: one possible transition. doc.go shows the tables.
type step[S ~uint8] struct {
	from S
	when string
	to   S
}

// follow returns for each state the set of states that may follow it, as bits.
func follow[S ~uint8](steps []step[S]) (next [16]uint16) {
	for _, s := range steps {
		next[s.from] |= 1 << s.to
	}
	return next
}
