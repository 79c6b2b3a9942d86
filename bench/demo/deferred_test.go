package demo

import (
	"strings"
	"testing"
	"time"

	"weir/bench/report"
)

// The demo notices what is lost, delivered twice, out of order, or too fast.
func TestJudgeDeferred(t *testing.T) {
	at := func(n int, apart time.Duration) (list []time.Time) {
		for i := range n {
			list = append(list, time.Unix(0, 0).Add(time.Duration(i)*apart))
		}
		return list
	}
	f := func(wrong string, late []int, n int, apart time.Duration) {
		t.Helper()
		w := &warehouse{live: map[string]int{"shop0": 1}, late: map[string][]int{"shop0": late}, at: map[string][]time.Time{"shop0": at(n, apart)}}
		var out strings.Builder
		err := w.judge(&out, &sales{passed: 1, stored: 3, promised: map[string][]int{"shop0": {1, 2, 4}}})
		if wrong == "" && err != nil || wrong != "" && (err == nil || !strings.HasPrefix(err.Error(), report.ErrMissed.Error()) || !strings.Contains(err.Error(), wrong)) {
			t.Errorf("%v, %d in %v: %v, want %q", late, n, apart, err, wrong)
		}
	}
	f("", []int{1, 2, 4}, mostAllowed, time.Millisecond)
	f("3 orders were stored, 2 delivered", []int{1, 2}, 3, time.Second)
	f("3 orders were stored, 4 delivered", []int{1, 2, 4, 4}, 3, time.Second)
	f("2 deferred orders came at another place", []int{2, 1, 4}, 3, time.Second)
	f("orders of one shop in a window: 122, expected", []int{1, 2, 4}, mostAllowed+1, time.Millisecond)
	f("", []int{1, 2, 4}, mostAllowed+1, window/time.Duration(mostAllowed)+time.Millisecond)
}
