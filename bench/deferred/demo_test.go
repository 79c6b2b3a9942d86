package deferred

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// The demo notices what is lost, delivered twice, out of order, or too fast.
func TestJudgeSales(t *testing.T) {
	at := func(n int, apart time.Duration) (list []time.Time) {
		for i := range n {
			list = append(list, time.Unix(0, 0).Add(time.Duration(i)*apart))
		}
		return list
	}
	f := func(wrong, deferred string, n int, apart time.Duration) {
		t.Helper()
		late := strings.Fields(deferred)
		w := &warehouse{n: len(late) + 1, late: map[string][]string{"0": late}, at: map[string][]time.Time{"0": at(n, apart)}}
		judged(t, fmt.Sprintf("%v, %d in %v", late, n, apart), wrong, func(l *lab) {
			l.judgeSales(w, &sales{passed: 1, stored: 3, accepted: map[string][]string{"0": {"1", "2", "4"}}})
		})
	}
	f("", "1 2 4", mostAllowed, time.Millisecond)
	f("3 orders were stored, 2 delivered", "1 2", 3, time.Second)
	f("3 orders were stored, 4 delivered", "1 2 4 4", 3, time.Second)
	f("2 deferred orders arrived out of order", "2 1 4", 3, time.Second)
	f("orders of one shop in a window: 122, expected", "1 2 4", mostAllowed+1, time.Millisecond)
	f("", "1 2 4", mostAllowed+1, window/time.Duration(mostAllowed)+time.Millisecond)
}
