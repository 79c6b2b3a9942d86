package agenda_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"weir/internal/timing/agenda"
)

func Example() {
	var a agenda.Queue[time.Duration, string]
	a.Add(2*time.Second, "end")
	a.Add(time.Second, "begin")
	a.Add(time.Second, "go on")
	for a.Len() > 0 {
		fmt.Println(a.Next())
	}
	// Output:
	// 1s begin
	// 1s go on
	// 2s end
}

// Whatever is added and taken, time goes on and equals stay in their order.
func TestOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	var a agenda.Queue[int, int]
	added, now, before := 0, 0, 0
	for range 10_000 {
		if a.Len() == 0 || r.IntN(2) == 0 {
			added++
			a.Add(now+r.IntN(9), added)
			continue
		}
		first := a.First()
		at, what := a.Next()
		if at != first || at < now || at == now && what < before {
			t.Fatalf("%d at %d comes after %d at %d", what, at, before, now)
		}
		if before = what; at > now {
			now = at
		}
	}
}
