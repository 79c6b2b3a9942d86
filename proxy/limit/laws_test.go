package limit_test

import (
	"testing"

	"weir/proxy/limit"
	"weir/proxy/limit/limittest"
)

func TestLaws(t *testing.T) {
	given := func() (limittest.Take, limittest.Add) {
		var s limit.State
		take := func(now int64, l *limit.Limit, ask limit.Ask) (int64, limit.Decision) {
			return l.Decide(now, &s, ask)
		}
		return take, func(now int64, l *limit.Limit, n int64) bool { return l.Add(now, &s, n) }
	}
	fresh := func() limittest.Take {
		take, _ := given()
		return take
	}
	limittest.Run(t, limittest.Subject{Fresh: fresh, Given: given})
}
