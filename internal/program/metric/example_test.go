package metric_test

import (
	"os"
	"time"

	"weir/internal/program/metric"
)

func Example() {
	// Two loops count, each on its own.
	var forwarded [2]metric.Counter
	durations := [2]*metric.Histogram{
		metric.NewHistogram([]float64{0.01, 0.1}),
		metric.NewHistogram([]float64{0.01, 0.1}),
	}
	forwarded[0].Inc()
	durations[0].Observe(4 * time.Millisecond)
	forwarded[1].Inc()
	durations[1].Observe(250 * time.Millisecond)

	set := metric.New()
	set.Counter(`requests_total{decision="forwarded"}`, "Requests by decision.", func() uint64 {
		return forwarded[0].Load() + forwarded[1].Load()
	})
	set.Histogram("request_duration_seconds", "From first byte to last.", durations[:]...)
	set.Write(os.Stdout)
	// Output:
	// # HELP requests_total Requests by decision.
	// # TYPE requests_total counter
	// requests_total{decision="forwarded"} 2
	// # HELP request_duration_seconds From first byte to last.
	// # TYPE request_duration_seconds histogram
	// request_duration_seconds_bucket{le="0.01"} 1
	// request_duration_seconds_bucket{le="0.1"} 1
	// request_duration_seconds_bucket{le="+Inf"} 2
	// request_duration_seconds_sum 0.254
	// request_duration_seconds_count 2
}
