package limit_test

import (
	"testing"

	"weir/proxy/limit"
	"weir/proxy/limit/limittest"
)

func TestLaws(t *testing.T) {
	limittest.Run(t, limittest.Subject{Fresh: func() limittest.Take {
		var s limit.State
		return func(now int64, l *limit.Limit, ask limit.Ask) (int64, limit.Decision) {
			return l.Decide(now, &s, ask)
		}
	}})
}
