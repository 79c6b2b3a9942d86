package admin

import (
	"math"

	"weir/internal/program/metric"
	"weir/proxy/limit"
)

// RegisterMetrics adds the gauges that show whether the rules in force are those of the
// files and of the store.
func (r *Rules) RegisterMetrics(set *metric.Set) {
	set.Gauge("ratelimiter_rules_file_ignored",
		"1 while RULES_FILE or CLIENTS_FILE is invalid and the previous content stays in force", func() float64 {
			return metric.Bool(r.fileIgnored.Load() != nil)
		})
	if r.docs != nil {
		r.registerMetrics(set)
	}
}

// RegisterMetrics adds the gauges that show the configuration in force.
func (l *Limits) RegisterMetrics(set *metric.Set) {
	l.registerMetrics(set)
	gauge := func(name, help string, of func(lim *limit.Limit) float64) {
		set.Gauge(name, help, func() float64 { return of(&l.Active().Policy.Limit) })
	}
	current := func(lim *limit.Limit) float64 {
		switch lim.Algorithm() {
		case limit.Token, limit.Leaky:
			return lim.Rate()
		case limit.Off:
			return math.Inf(1)
		}
		return float64(lim.Permits())
	}
	const help = "the limit in force; for token and leaky the fill rate, for off infinite"
	gauge("ratelimiter_current_limit", help, current)
	gauge("rate_limit_current_limit", help, current)
	gauge("ratelimiter_window_seconds", "the window in force; for token 0",
		func(lim *limit.Limit) float64 { return lim.Window().Seconds() })
	gauge("ratelimiter_bucket_capacity", "the token bucket's capacity; 0 with another algorithm",
		func(lim *limit.Limit) float64 {
			return float64(lim.Config().Capacity)
		})
	gauge("ratelimiter_token_fill_rate", "the token bucket's fill rate; 0 with another algorithm",
		func(lim *limit.Limit) float64 {
			return lim.Config().FillRate
		})
	set.Gauges("rate_limit_algorithm", "1 for the algorithm in force", func(add func(labels string, v float64)) {
		for _, a := range limit.Algorithms() {
			add(metric.Labels("algorithm", a.String()), metric.Bool(a == l.Policy().Limit.Algorithm()))
		}
	})
}
