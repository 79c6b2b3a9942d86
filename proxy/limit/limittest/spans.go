package limittest

import (
	"cmp"
	"fmt"
	"slices"

	"weir/proxy/limit"
)

// A Span is the time within which something was admitted, between two instants in µs.
type Span struct{ From, To int64 }

// CheckSpans checks that no span of time has more admissions, each of cost 1, than l allows. If the state
// of the key was lost, or was held by several places in succession, states is the number of states.
func CheckSpans(l *limit.Limit, admitted []Span, states int64) error {
	byEnd := slices.SortedFunc(slices.Values(admitted), func(a, b Span) int { return cmp.Compare(a.To, b.To) })
	for _, first := range admitted {
		sum := int64(0)
		for _, s := range byEnd {
			if s.From < first.From {
				continue
			}
			if sum++; !lawful(l, sum-(states-1)*l.Burst(), first.From, s.To) {
				return fmt.Errorf("%d admitted within %d µs", sum, s.To-first.From)
			}
		}
	}
	return nil
}
