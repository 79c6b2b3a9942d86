package share

import (
	"fmt"
	"slices"
	"testing"
)

// Clients take turns, and the items of each are in order.
func TestTurns(t *testing.T) {
	q := NewRoundRobin[string](100)
	for i, c := range []byte{1, 1, 1, 2, 3, 3} {
		q.Enter(client(c), fmt.Sprint(c, ".", i))
	}
	var order []string
	for len(order) < 7 {
		item, ok := q.Next()
		if !ok {
			t.Fatalf("nothing waits after %v", order)
		}
		if order = append(order, item); len(order) == 2 {
			q.Enter(client(4), "4.6")
		}
	}
	if want := []string{"1.0", "2.3", "3.4", "1.1", "4.6", "3.5", "1.2"}; !slices.Equal(order, want) {
		t.Errorf("the order is %v, want %v", order, want)
	}
	if item, ok := q.Next(); ok {
		t.Errorf("%s still waits", item)
	}
	if len(q.lines) != 0 || q.Held() != 7 {
		t.Errorf("%d clients wait and %d items are held, want 0 and 7", len(q.lines), q.Held())
	}
}

// One client holds half of the queue at most, and a further one always finds room. What Next has
// returned is held until Leave.
func TestTurnsShares(t *testing.T) {
	q := NewRoundRobin[int](10)
	fill := func(c byte, want int) {
		t.Helper()
		n := 0
		for ; q.Admits(client(c)); n++ {
			q.Enter(client(c), n)
		}
		if n != want {
			t.Errorf("client %d gets %d more, want %d", c, n, want)
		}
	}
	fill(1, 5)
	q.Next()
	fill(1, 0)
	q.Leave(client(1))
	fill(2, 3)
	for c := byte(3); q.Held() < 10; c++ {
		fill(c, 1)
	}
	fill(99, 0)
}
