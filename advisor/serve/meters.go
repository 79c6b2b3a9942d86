package serve

import (
	"math"

	"weir/advisor/core"
	"weir/internal/data/number"
	"weir/internal/program/metric"
)

// registerMetrics registers the counters and the metrics of the core.
func (s *Server) registerMetrics(set *metric.Set) {
	for r := range core.Result(core.ResultCount) {
		set.Counter("advisor_snapshots_total"+metric.Labels("result", r.String()), "Snapshots by result.", s.results[r].Load)
	}
	set.Counter("advisor_snapshots_shed_total", "Snapshots answered 503 because too many were in progress.", s.shed.Load)
	set.Histogram("advisor_post_duration_seconds", "Time to answer a snapshot.", s.posts)
	set.Histogram("advisor_fit_duration_seconds",
		"Time to update the forecast and the recommendation with a snapshot.", s.locked.fits)
	set.Counter("advisor_clock_jumps_total", "How often snapshots led to another time.",
		func() uint64 { return s.locked.view().Jumps })
	s.registerBeliefs(set)
	if k := s.saver; k != nil {
		set.Counter("advisor_state_writes_total", "How often STATE_FILE was written.", k.writes.Load)
		set.Counter("advisor_state_errors_total", "How often STATE_FILE or its journal could not be written.", func() uint64 {
			return k.failures.Load() + k.store.RecordCounts().JournalErrors
		})
		set.Counter("advisor_state_journal_bytes_total", "Bytes written to the journal.",
			func() uint64 { return k.store.RecordCounts().JournalBytes })
		set.Counter("advisor_state_journal_lost_total", "Records dropped while the disk accepted no writes.",
			func() uint64 { return k.store.RecordCounts().Lost })
		set.Gauge("advisor_history_bytes", "Size of STATE_FILE when it was written last.", k.size.Load)
	}
}

// registerBeliefs registers metrics of the estimates. Unknown values have no sample.
func (s *Server) registerBeliefs(set *metric.Set) {
	one := func(name, help string, read func(f *core.View) float64) {
		set.Gauges(name, help, func(add func(labels string, v float64)) {
			f := s.locked.view()
			if v := read(&f); v == v && !math.IsInf(v, 0) {
				add("", v)
			}
		})
	}
	given := func(f *core.View, v float64) float64 {
		if !f.Recommendation.Given {
			return math.NaN()
		}
		return v
	}
	one("advisor_recommended_limit", "Newest recommendation, as permits per second.",
		func(f *core.View) float64 { return given(f, f.Recommendation.Rec.Rate()) })
	one("advisor_limit_in_force", "Limit in force at the newest snapshot, as permits per second.",
		func(f *core.View) float64 { return given(f, f.Recommendation.Sum.Limit.Rate()) })
	one("advisor_observed_rps", "Requests per second that arrive, all proxies together.",
		func(f *core.View) float64 { return given(f, f.Recommendation.Sum.Observed) })
	one("advisor_predicted_rps", "Highest median of the demand while the recommendation is valid.",
		func(f *core.View) float64 { return given(f, f.Recommendation.Rec.PredictedRPS) })
	one("advisor_confidence", "How well the target's capacity is known, from 0 to 1.",
		func(f *core.View) float64 { return f.PolicyState.Capacity.Confidence })
	one("advisor_capacity_estimate", "Median of the target's estimated capacity, in requests per second.",
		func(f *core.View) float64 { return positive(f.PolicyState.Capacity.Q50) })
	set.Gauges("advisor_capacity_estimate_quantile", "Quantiles of the target's estimated capacity.", s.capacities)
	one("advisor_shortage_seconds",
		"Time until the 95 % quantile of the demand exceeds the target's known capacity; no sample: "+
			"not within 20 minutes.", func(f *core.View) float64 {
			return given(f, positive(f.Recommendation.Rec.Shortage.Seconds()))
		})
	one("advisor_target_fault", "1 while the target fails for reasons other than load.",
		func(f *core.View) float64 { return metric.Bool(f.PolicyState.Guard.Fault.Active) })
	one("advisor_instances", "Proxies that count.", func(f *core.View) float64 { return float64(f.Active) })
	one("advisor_instances_unshared",
		"Proxies that count and have a store of their own: several get a part of the limit each.", func(f *core.View) float64 {
			return float64(f.OwnStores)
		})
	one("advisor_newest_snapshot_timestamp_seconds", "Time of the newest snapshot.", func(f *core.View) float64 {
		if f.Newest.IsZero() {
			return math.NaN()
		}
		return float64(f.Newest.UnixMilli()) / 1e3
	})
	set.Gauges("advisor_forecast_error_ratio",
		"Sum of the errors of the median forecast over the sum of the rates, of the last thousand forecasts or "+
			"so, by how far ahead.", s.errors)
}

func positive(v float64) float64 {
	if !(v > 0) {
		return math.NaN()
	}
	return v
}

// capacities adds the known quantiles of the capacity.
func (s *Server) capacities(add func(labels string, v float64)) {
	c := s.locked.view().PolicyState.Capacity
	if !(c.Q50 > 0) {
		return
	}
	for _, q := range []struct {
		name  string
		value float64
	}{{"0.05", c.Q05}, {"0.2", c.Q20}, {"0.5", c.Q50}, {"0.8", c.Q80}, {"0.95", c.Q95}} {
		add(metric.Labels("quantile", q.name), q.value)
	}
}

// errors adds the errors of the scored forecasts.
func (s *Server) errors(add func(labels string, v float64)) {
	for _, m := range s.locked.view().Mixtures {
		if m.Scored > 0 {
			add(metric.Labels("horizon_seconds", number.Decimal(m.Ahead.Seconds())), m.Error)
		}
	}
}
