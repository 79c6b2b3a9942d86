package budget

import "testing"

// Between the two marks nothing changes, so that shedding does not flutter.
func TestMemoryMarks(t *testing.T) {
	m := Memory{Budget: 1000}
	for _, step := range []struct {
		used  int64
		short bool
		sheds uint64
	}{{0, false, 0}, {919, false, 0}, {920, true, 1}, {2000, true, 1}, {851, true, 1}, {850, false, 1}, {919, false, 1}, {920, true, 2}, {0, false, 2}} {
		if m.judge(step.used); m.Shedding.Load() != step.short || m.Sheds.Load() != step.sheds {
			t.Errorf("at %d of 1000: sheds %t, for the %dth time, want %t, %d", step.used, m.Shedding.Load(), m.Sheds.Load(), step.short, step.sheds)
		}
	}
}
