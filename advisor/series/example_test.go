package series_test

import (
	"fmt"
	"time"

	"weir/advisor/series"
)

// Time without measurements is a gap, not a zero.
func Example() {
	h := series.New()
	at := time.Date(2026, 1, 19, 16, 0, 0, 0, time.UTC)
	h.Add(at.Add(30*time.Second), 30*time.Second, 100)
	h.Add(at.Add(60*time.Second), 30*time.Second, 200)
	h.Add(at.Add(150*time.Second), 30*time.Second, 400)
	rows := h.View(at, at.Add(3*time.Minute), time.Minute)
	for _, r := range rows {
		fmt.Printf("%s %3g/s, %g of it known\n", r.At.Format("15:04"), r.Rate, r.Coverage)
	}
	// Output:
	// 16:01 150/s, 1 of it known
	// 16:02   0/s, 0 of it known
	// 16:03 400/s, 0.5 of it known
}
