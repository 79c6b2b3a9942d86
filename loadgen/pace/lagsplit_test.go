package pace

import (
	"fmt"
	"testing"
	"time"
)

func ExampleLagSplit() {
	start := time.Unix(0, 0)
	at := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
	var b LagSplit
	fmt.Println("due at 10, sent at 11:", b.PacerLag(at(11), at(10)))
	b.Dry(at(20))
	b.Ready(at(50), at(60))
	fmt.Println("due at 18, all busy from 20 to 50, sent at 51:", b.PacerLag(at(51), at(18)))
	// Output:
	// due at 10, sent at 11: 1ms
	// due at 18, all busy from 20 to 50, sent at 51: 3ms
}

func TestPacerLag(t *testing.T) {
	start := time.Unix(100, 0)
	at := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
	type step func(b *LagSplit)
	dry := func(ms int) step { return func(b *LagSplit) { b.Dry(at(ms)) } }
	ready := func(ms, wanted int) step { return func(b *LagSplit) { b.Ready(at(ms), at(wanted)) } }
	caught := func(b *LagSplit) { b.CaughtUp() }

	for _, c := range []struct {
		name     string
		steps    []step
		due, now int
		want     int
	}{
		{"all of it when connections were free", nil, 10, 15, 5},
		{"nothing when due while all were busy", []step{dry(5), ready(30, 40)}, 10, 30, 0},
		{"what came after a connection was free", []step{dry(5), ready(30, 40)}, 10, 33, 3},
		{"what came before the loop looked", []step{dry(50), ready(60, 70)}, 10, 60, 40},
		{"both", []step{dry(50), ready(60, 70)}, 10, 65, 45},
		{"the loop overslept while all were busy", []step{dry(5), ready(90, 30)}, 10, 90, 60},
		{"only the first dry moment counts", []step{dry(20), ready(25, 30), dry(25), ready(40, 50)}, 15, 40, 5},
		{"due after the connections were free again", []step{dry(5), ready(30, 40)}, 35, 36, 1},
		{"an earlier wait is forgotten", []step{dry(5), ready(30, 40), caught}, 31, 45, 14},
		{"never more than the lag", []step{dry(50), ready(20, 20)}, 10, 60, 50},
		{"never negative", []step{dry(50), ready(60, 70)}, 55, 55, 0},
	} {
		var b LagSplit
		for _, s := range c.steps {
			s(&b)
		}
		if got := b.PacerLag(at(c.now), at(c.due)); got != time.Duration(c.want)*time.Millisecond {
			t.Errorf("%s: due %d, sent %d: %v, want %d ms", c.name, c.due, c.now, got, c.want)
		}
	}
}
