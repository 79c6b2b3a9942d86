package share

// RoundRobin is a queue that serves clients in turn (round robin). It takes one item of each client,
// in the order of arrival within the client. An item waits for at most one item of each other
// client for every earlier item of its own client.
//
// Each client holds at most its share of the queue, see [Usage.Admits]. An item is held until Leave.
//
// Owned by the owner of what waits.
type RoundRobin[T any] struct {
	capacity int64
	held     Usage
	lines    map[Client][]T
	turns    []Client // those with a line, in the order in which they are served
}

// NewRoundRobin returns an empty queue that holds as many items as capacity.
func NewRoundRobin[T any](capacity int) *RoundRobin[T] {
	return &RoundRobin[T]{capacity: int64(capacity), lines: make(map[Client][]T)}
}

// Admits reports whether c may enter a further item.
func (q *RoundRobin[T]) Admits(c Client) bool { return q.held.Admits(c, 1, q.capacity) }

// Enter adds an item of c.
func (q *RoundRobin[T]) Enter(c Client, item T) {
	q.held.Add(c, 1)
	if len(q.lines[c]) == 0 {
		q.turns = append(q.turns, c)
	}
	q.lines[c] = append(q.lines[c], item)
}

// Next removes the next item. It returns false if none waits.
func (q *RoundRobin[T]) Next() (item T, ok bool) {
	if len(q.turns) == 0 {
		return item, false
	}
	c := q.turns[0]
	q.turns = q.turns[1:]
	line := q.lines[c]
	if item = line[0]; len(line) > 1 {
		q.lines[c] = line[1:]
		q.turns = append(q.turns, c)
	} else {
		delete(q.lines, c)
	}
	return item, true
}

// Leave gives back the place of an item of c that Next has returned.
func (q *RoundRobin[T]) Leave(c Client) { q.held.Add(c, -1) }

// Held returns how many items are held.
func (q *RoundRobin[T]) Held() int64 { return q.held.Total() }
