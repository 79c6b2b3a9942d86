package limittest

import (
	"testing"

	"weir/proxy/limit"
)

// Spans reports spans with more admissions than a limit allows, and no others.
func TestSpans(t *testing.T) {
	l := Must(limit.Config{Algorithm: limit.Token, Capacity: 2, FillRate: 10})
	at := func(ms ...int64) (spans []Span) {
		for _, m := range ms {
			spans = append(spans, Span{m * 1000, m * 1000})
		}
		return spans
	}
	for _, f := range []struct {
		spans  []Span
		states int64
		holds  bool
	}{
		{nil, 1, true},
		{at(0, 0, 100, 200, 300), 1, true},
		{at(0, 0, 99), 1, false},
		{at(0, 0, 99), 2, true},
		{at(0, 0, 100, 1100, 1100, 1150), 1, false}, // after a pause
		{[]Span{{0, 0}, {0, 0}, {50_000, 100_000}}, 1, true},
		{[]Span{{0, 0}, {0, 0}, {50_000, 99_000}}, 1, false},
	} {
		if err := CheckSpans(l, f.spans, f.states); (err == nil) != f.holds {
			t.Errorf("%v of %d states: %v", f.spans, f.states, err)
		}
	}
}
