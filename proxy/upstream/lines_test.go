package upstream_test

import (
	"testing"
	"time"

	"weir/proxy/upstream"
)

// Of loops whose lines ask, that one has the next place which has the fewest, if it sends
// requests to the target. Whose own line asks too yields to those with fewer only.
func TestLinesTakeTurns(t *testing.T) {
	const mine = 1
	for _, test := range []struct {
		name  string
		taken [3]int
		asks  [3]bool
		open  [3]bool
		wants bool
		want  int
	}{
		{"nobody asks", [3]int{0, 5, 0}, [3]bool{}, [3]bool{true, true, true}, true, -1},
		{"only this one asks", [3]int{0, 5, 0}, [3]bool{false, true, false}, [3]bool{true, true, true}, true, -1},
		{"another has fewer", [3]int{3, 4, 9}, [3]bool{true, true, true}, [3]bool{true, true, true}, true, 0},
		{"as many", [3]int{4, 4, 4}, [3]bool{true, true, true}, [3]bool{true, true, true}, true, -1},
		{"others have more", [3]int{5, 4, 6}, [3]bool{true, true, true}, [3]bool{true, true, true}, true, -1},
		{"others have more, and this one wants none", [3]int{6, 4, 5}, [3]bool{true, false, true}, [3]bool{true, true, true}, false, 2},
		{"the one with fewest is not open", [3]int{0, 4, 3}, [3]bool{true, true, true}, [3]bool{false, true, true}, true, 2},
		{"none is open", [3]int{0, 4, 3}, [3]bool{true, true, true}, [3]bool{}, false, -1},
		{"who has fewer does not ask", [3]int{0, 4, 9}, [3]bool{false, true, true}, [3]bool{true, true, true}, true, -1},
	} {
		t.Run(test.name, func(t *testing.T) {
			lines, now := upstream.NewLines(3), time.Unix(1, 0)
			var all [3]*upstream.Line[int]
			for loop := range all {
				all[loop] = upstream.NewLine[int](10, plenty)
				all[loop].Among(lines, loop)
				for range test.taken[loop] {
					all[loop].Take(now, new(upstream.Waiter[int]))
				}
				if all[loop].Ask(test.asks[loop]) != test.asks[loop] {
					t.Errorf("loop %d asks for the first time: %v", loop, !test.asks[loop])
				}
			}
			if got := all[mine].Rival(test.wants, func(loop int) bool { return test.open[loop] }); got != test.want {
				t.Errorf("the next place is for loop %d, want %d", got, test.want)
			}
		})
	}
}

// A line whose last one leaves asks no more, nor does one of which nobody may have the
// place.
func TestLinesAskNoLonger(t *testing.T) {
	lines, now := upstream.NewLines(2), time.Unix(1, 0)
	here, there := upstream.NewLine[int](10, plenty), upstream.NewLine[int](10, plenty)
	here.Among(lines, 0)
	there.Among(lines, 1)
	var w upstream.Waiter[int]
	for _, end := range []func(){func() { there.Leave(&w) }, func() { there.Next(now) }} {
		there.Join(now, &w)
		there.Ask(true)
		if there.Ask(true) {
			t.Error("what is known already is said to be news")
		}
		if here.Idle() || here.Rival(true, func(int) bool { return true }) != -1 || here.Rival(false, func(int) bool { return true }) != 1 {
			t.Error("it is not seen that somebody waits on another loop")
		}
		if end(); !here.Idle() {
			t.Error("nobody waits, and it looks as if somebody did")
		}
	}
}
