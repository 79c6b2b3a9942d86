package backtest_test

import (
	"fmt"
	"time"

	"weir/advisor/forecast"
	"weir/bench/forecast/backtest"
)

// always forecasts the same number.
type always float64

func (a always) Observe(time.Time, time.Duration, float64) {}
func (a always) Ahead(time.Duration) forecast.Point {
	y := float64(a)
	return forecast.Point{Q05: y, Q50: y, Q80: y, Q95: y, Q99: y}
}

func Example() {
	t, _ := backtest.ParseCounts("steps", time.Minute,
		[]byte("time,count\n2026-01-19 16:30:00,60\n2026-01-19 16:31:00,120\n2026-01-19 16:32:00,120\n"))
	r, _ := backtest.Replay(t, always(2), time.Minute)
	s := r.Score(0, t.Share(0))
	fmt.Printf("%d forecasts, WAPE %g, MASE %g\n", s.N, s.WAPE, s.MASE)
	// Output:
	// 2 forecasts, WAPE 0, MASE 0
}
