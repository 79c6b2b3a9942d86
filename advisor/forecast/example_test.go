package forecast_test

import (
	"fmt"
	"math"
	"time"

	"weir/advisor/forecast"
)

// A rate with a daily course, observed every quarter of an hour for a week.
func Example() {
	f := forecast.New(forecast.Settings{})
	at := time.Date(2026, 1, 19, 0, 0, 0, 0, time.UTC)
	for i := range 7 * 96 {
		at = at.Add(15 * time.Minute)
		f.Observe(at, 15*time.Minute, 100-80*math.Cos(2*math.Pi*float64(i)/96))
	}
	p := f.Outlook(time.Hour, time.Hour)[0]
	fmt.Printf("within an hour after midnight: about %.0f/s, surely below %.0f/s\n", p.Q50, 5*math.Ceil(p.Q99/5))
	// Output:
	// within an hour after midnight: about 22/s, surely below 25/s
}
