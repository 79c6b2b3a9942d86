package postgres

import (
	"testing"
	"time"
)

// The clock believes the quickest answer, takes clocks for the same that may be, and notices when
// one is set.
func TestClock(t *testing.T) {
	now := time.Date(2026, 11, 23, 6, 0, 0, 0, time.UTC)
	const ms = time.Millisecond
	var c clock
	for _, step := range []struct {
		name               string
		took, ahead, wants time.Duration // the answer, the server's clock, and what is believed
	}{
		{"the same clock", 4 * ms, 0, 0},
		{"nearly the same", 4 * ms, 1 * ms, 0},
		{"a slow answer is not believed", 400 * ms, 150 * ms, 0},
		{"the server's was set forward", 4 * ms, time.Hour, time.Hour},
		{"a slow answer", time.Second, time.Hour + 300*ms, time.Hour},
		{"a quicker answer", 2 * ms, time.Hour + 1*ms, time.Hour + 1*ms},
		{"and back", 400 * ms, 0, 0},
	} {
		c.seen(now, now.Add(step.took), now.Add(step.took/2+step.ahead).UnixMicro())
		if got := time.UnixMicro(c.there(now)).Sub(now); got != step.wants {
			t.Errorf("%s: ahead by %v, want %v", step.name, got, step.wants)
		}
		if back := c.here(c.there(now)); !back.Equal(now) {
			t.Errorf("%s: there and back is %v", step.name, back)
		}
	}
	if !c.here(0).IsZero() {
		t.Error("0 is a time")
	}
	for range 10_000 { // what was quick once is not believed for ever
		c.seen(now, now.Add(40*ms), now.Add(20*ms+30*ms).UnixMicro())
	}
	if got := time.UnixMicro(c.there(now)).Sub(now); got != 30*ms {
		t.Errorf("after a drift ahead by %v", got)
	}
}
