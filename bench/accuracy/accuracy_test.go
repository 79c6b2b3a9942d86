package accuracy

import (
	"testing"
	"time"

	"weir/bench/rig"
)

func TestGood(t *testing.T) {
	load := func(sent, ok, limited, failed uint64) *rig.Loaded {
		return &rig.Loaded{Sent: sent, Success: ok, RateLimited: limited, Errors: failed}
	}
	for _, c := range []struct {
		name string
		m    measured
		want bool
	}{
		{"exact", measured{load(10, 4, 6, 0), 1000}, true},
		{"at the bound", measured{load(10, 4, 6, 0), 1005}, true},
		{"above it", measured{load(10, 4, 6, 0), 1005.1}, false},
		{"below it", measured{load(10, 4, 6, 0), 994.9}, false},
		{"a failure", measured{load(10, 4, 5, 1), 1000}, false},
		{"one without an answer", measured{load(10, 4, 5, 0), 1000}, false},
	} {
		if got := c.m.good(); got != c.want {
			t.Errorf("%s: good is %v", c.name, got)
		}
	}
}

func TestLateIn(t *testing.T) {
	second := time.Unix(1_800_000_000, 0)
	for _, c := range []struct{ from, want time.Duration }{
		{0, settle},
		{settle, settle},
		{settle + 1, settle + time.Second},
		{999 * time.Millisecond, settle + time.Second},
	} {
		if got := lateIn(second.Add(c.from)).Sub(second); got != c.want {
			t.Errorf("from %v: %v, want %v", c.from, got, c.want)
		}
	}
}
