package limit_test

import (
	"testing"

	"weir/proxy/limit"
	"weir/proxy/limit/limittest"
)

func TestLaws(t *testing.T) {
	given := func() (limittest.Take, limittest.Add) {
		states := make(map[limit.Kind]*limit.State)
		take := func(now int64, l *limit.Limit, charge limit.Charge) (int64, limit.Decision) {
			if states[l.Kind()] == nil {
				states[l.Kind()] = new(limit.State)
			}
			return l.Decide(now, states[l.Kind()], charge)
		}
		return take, func(now, n int64) (changed bool) {
			for _, s := range states {
				changed = s.Add(now, n) || changed
			}
			return changed
		}
	}
	fresh := func() limittest.Take {
		take, _ := given()
		return take
	}
	limittest.Run(t, limittest.Subject{Fresh: fresh, Given: given})
}
