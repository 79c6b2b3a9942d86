package scenario

import (
	"testing"

	"weir/bench/report"
	"weir/bench/rig"
	"weir/loadgen/record"
)

func TestExact(t *testing.T) {
	load := func(sent, ok, limited, failed uint64) *rig.Loaded {
		return &rig.Loaded{Result: record.Result{Sent: sent, Success: ok, RateLimited: limited, Errors: failed}}
	}
	for _, c := range []struct {
		name     string
		load     *rig.Loaded
		admitted uint64
		missed   int
	}{
		{"exact", load(10, 4, 6, 0), 1000, 0},
		{"at the bound", load(10, 4, 6, 0), 1005, 0},
		{"above it", load(10, 4, 6, 0), 1006, 1},
		{"below it", load(10, 4, 6, 0), 994, 1},
		{"a failure", load(10, 4, 5, 1), 1000, 2},
		{"one without an answer", load(10, 4, 5, 0), 1000, 1},
	} {
		o := outcome{loads: []*rig.Loaded{c.load}}
		for n := 1; n < accuracySeconds; n++ {
			s := second{n: n, admitted: c.admitted}
			if n <= accuracyFrom || n > accuracyTo {
				s.admitted = 5000 // which is not counted
			}
			o.seconds = append(o.seconds, s)
		}
		var e report.Expectations
		if o.exact(&e, "fixed"); len(e.Missed()) != c.missed {
			t.Errorf("%s: %q", c.name, e.Missed())
		}
	}
}
