package http1_test

import (
	"testing"
	"time"

	"weir/internal/net/http1"
)

// The line is that of the second of now, also when time steps back.
func TestDate(t *testing.T) {
	var d http1.Date
	at := time.Date(2026, 1, 9, 18, 30, 0, 0, time.FixedZone("CET", 3600))
	for _, test := range []struct {
		after   time.Duration
		want    string
		renewed bool
	}{
		{0, "Date: Fri, 09 Jan 2026 17:30:00 GMT\r\n", true},
		{999 * time.Millisecond, "Date: Fri, 09 Jan 2026 17:30:00 GMT\r\n", false},
		{time.Second, "Date: Fri, 09 Jan 2026 17:30:01 GMT\r\n", true},
		{-time.Millisecond, "Date: Fri, 09 Jan 2026 17:29:59 GMT\r\n", true},
	} {
		if line, renewed := d.At(at.Add(test.after)); string(line) != test.want || renewed != test.renewed {
			t.Errorf("after %v: %q, %t; want %q, %t", test.after, line, renewed, test.want, test.renewed)
		}
	}
	if n := testing.AllocsPerRun(100, func() { at = at.Add(time.Second); d.At(at) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
