package scenario

import (
	"context"
	"math"
	"time"

	"weir/bench/lab/rig"
)

// sampleStep is the interval at which metrics are read.
const sampleStep = 200 * time.Millisecond

// A reading holds the metrics at a moment.
type reading struct {
	at            time.Time
	proxy, target rig.Metrics
}

// appendReading appends the metrics of the first proxy and the target. If that fails, it appends
// nothing, as programs may have been killed.
func appendReading(ctx context.Context, list []reading, r *rig.Rig) []reading {
	at := time.Now()
	p, err1 := rig.Scrape(ctx, r.ProxyAddrs[0])
	t, err2 := rig.Scrape(ctx, r.TargetAddr)
	if err1 == nil && err2 == nil {
		list = append(list, reading{at, p, t})
	}
	return list
}

// samples returns the differences between readings from the start of the load to its end.
func samples(readings []reading, start time.Time, length time.Duration) (list []Sample) {
	for i := 1; i < len(readings); i++ {
		before, now := &readings[i-1], &readings[i]
		at := now.at.Sub(start)
		if before.at.Before(start.Add(-sampleStep)) || at <= 0 || at > length+sampleStep {
			continue
		}
		list = append(list, between(before, now, at))
	}
	return list
}

func between(before, now *reading, at time.Duration) Sample {
	seconds := now.at.Sub(before.at).Seconds()
	rate := func(decision string) float64 {
		return now.proxy.Since(before.proxy, "ratelimiter_requests_total", `decision="`+decision+`"`) / seconds
	}
	s := Sample{At: at, Forwarded: rate("forwarded"), Rejected: rate("rejected"),
		Shed: now.proxy.Since(before.proxy, "ratelimiter_gate_shed_total") / seconds, Limit: permits(now.proxy),
		Forecast: math.NaN(),
		Queue:    now.target.Sum("target_queue_length"), FailOpen: now.proxy[`ratelimiter_mode{type="failopen"}`] == 1,
		TargetP95: now.target.Quantile(0.95, before.target, "http_server_requests_seconds", `uri="/api/test"`)}
	if v, there := now.proxy["ratelimiter_adaptive_predicted_rps"]; there && v > 0 {
		s.Forecast = v
	}
	return s
}

// permits returns the sustained rate of the limit in force; NaN without one.
func permits(proxy rig.Metrics) float64 {
	switch {
	case proxy[`rate_limit_algorithm{algorithm="off"}`] == 1:
		return math.NaN()
	case proxy["ratelimiter_window_seconds"] > 0:
		return proxy["ratelimiter_current_limit"] / proxy["ratelimiter_window_seconds"]
	}
	return proxy["ratelimiter_token_fill_rate"]
}
