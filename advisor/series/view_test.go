package series

import (
	"testing"
	"time"
)

func TestView(t *testing.T) {
	h := New()
	start := epoch.Truncate(time.Hour)
	at := start
	for i := range 3 * 24 * 60 { // three days by the minute, without an hour every day
		at = at.Add(time.Minute)
		if i%1440 < 60 {
			continue
		}
		if !h.Add(at, time.Minute, float64(i%1440)) {
			t.Fatal("a rate is refused")
		}
	}
	for _, c := range []struct {
		name     string
		from, to time.Time
		step     time.Duration
		rows     int
		gaps     int
	}{
		{"two hours by the minute", at.Add(-2 * time.Hour), at, time.Minute, 120, 0},
		{"a day by five minutes", at.Add(-24 * time.Hour), at, 5 * time.Minute, 288, 12},
		{"all by the hour", start, at, time.Hour, 72, 3},
		{"older than the minutes reach", start, start.Add(3 * time.Hour), time.Minute, 180, 60},
		{"the future", at, at.Add(time.Hour), time.Minute, 60, 60},
	} {
		rows := h.View(c.from, c.to, c.step)
		gaps := 0
		for i, r := range rows {
			if r.Coverage == 0 {
				gaps++
			}
			if i > 0 && r.At.Sub(rows[i-1].At) != c.step {
				t.Errorf("%s: row %d is %s after the one before", c.name, i, r.At.Sub(rows[i-1].At))
			}
		}
		if len(rows) != c.rows || gaps != c.gaps {
			t.Errorf("%s: %d rows with %d gaps, want %d with %d", c.name, len(rows), gaps, c.rows, c.gaps)
		}
	}
	if rows := h.View(at, start, time.Minute); len(rows) != 0 {
		t.Errorf("a span that ends before it begins: %v", rows)
	}
	if rows := New().View(start, at, time.Minute); len(rows) != 0 {
		t.Errorf("an empty history: %v", rows)
	}
}
