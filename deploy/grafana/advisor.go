package main

// advisor is the board of the advisor.
func advisor() board {
	return board{
		name: "advisor", title: "Weir: advisor", probe: "advisor_instances",
		description: "What the advisor expects, what it recommends and why it may, and how far off it was.",
		rows: []row{
			{"Now", advisorNow()},
			{"Forecast and recommendation", advisorForecast()},
			{"Snapshots and state", advisorWork()},
			{"Process", process()},
		},
	}
}

func advisorNow() []panel {
	return []panel{
		{title: "Arriving", kind: now, unit: perSecond, description: "What all proxies together report.", queries: []query{{`max(advisor_observed_rps{@})`, "arriving"}}},
		{title: "Predicted", kind: now, unit: perSecond, description: "Highest median of the demand while the recommendation is valid.", queries: []query{{`max(advisor_predicted_rps{@})`, "predicted"}}},
		{title: "Recommended", kind: now, unit: perSecond, description: "The newest recommendation, as a sustained rate.", queries: []query{{`max(advisor_recommended_limit{@})`, "recommended"}}},
		{title: "Capacity", kind: now, unit: perSecond, description: "Median of the target's estimated capacity; nothing while it is not known.", queries: []query{{`max(advisor_capacity_estimate{@})`, "capacity"}}},
		{title: "Confidence", kind: now, unit: share, top: 1, description: "How well the target's capacity is known.", queries: []query{{`max(advisor_confidence{@})`, "confidence"}}},
		{title: "Proxies", kind: now, unit: count, description: "Proxies whose snapshots count. With none the advisor learns nothing.", steps: needed(1, 0.5), queries: []query{{`max(advisor_instances{@})`, "proxies"}}},
	}
}

func advisorForecast() []panel {
	return []panel{
		{title: "Predicted and arriving", kind: lines, unit: perSecond, width: 12, description: "What is expected while the recommendation is valid, beside what arrives now.",
			queries: []query{{`max(advisor_predicted_rps{@})`, "predicted"}, {`max(advisor_observed_rps{@})`, "arriving"}}},
		{title: "Recommended, in force, capacity", kind: lines, unit: perSecond, width: 12, description: "The recommendation, the limit that the proxies report, and the target's estimated capacity.",
			queries: []query{{`max(advisor_recommended_limit{@})`, "recommended"}, {`max(advisor_limit_in_force{@})`, "in force"}, {`max(advisor_capacity_estimate{@})`, "capacity"}}},
		{title: "Capacity, quantiles", kind: lines, unit: perSecond, description: "How sure the belief in the target's capacity is: the closer, the surer.",
			queries: []query{{`max by (quantile) (advisor_capacity_estimate_quantile{@})`, "{{quantile}}"}}},
		{title: "Error of the forecast", kind: lines, unit: share, description: "Errors of the median over the rates, of the last thousand forecasts or so, by seconds ahead.",
			queries: []query{{`max by (horizon_seconds) (advisor_forecast_error_ratio{@})`, "{{horizon_seconds}} s ahead"}}},
		{title: "Confidence", kind: lines, unit: share, top: 1, description: "How well the target's capacity is known.", queries: []query{{`max(advisor_confidence{@})`, "confidence"}}},
	}
}

func advisorWork() []panel {
	return []panel{
		{title: "Snapshots", kind: lines, unit: events, stacked: true, description: "By what became of them; those that are shed were too many at a time.",
			queries: []query{{`sum by (result) (rate(advisor_snapshots_total{@}[~]))`, "{{result}}"}, {`sum(rate(advisor_snapshots_shed_total{@}[~]))`, "shed"}}},
		{title: "Time of an answer", kind: lines, unit: seconds, description: "How long answering a snapshot takes.", queries: quantiles("advisor_post_duration_seconds", "")},
		{title: "Learning", kind: lines, unit: seconds, description: "How long fitting the forecast to a snapshot, and the recommendation, took, mean of the last hour.",
			queries: []query{{`sum(increase(advisor_fit_duration_seconds_sum{@}[1h])) / sum(increase(advisor_fit_duration_seconds_count{@}[1h]))`, "mean"}}},
		{title: "Trouble", kind: lines, unit: events, description: "State that could not be written or was lost, and leaps of the snapshots' clock.",
			queries: []query{
				{`sum(rate(advisor_state_errors_total{@}[~]))`, "not written"},
				{`sum(rate(advisor_state_journal_lost_total{@}[~]))`, "lost"},
				{`sum(rate(advisor_clock_jumps_total{@}[~]))`, "leaps"},
			}},
		{title: "State", kind: lines, unit: size, description: "Size of STATE_FILE when it was written last.", queries: []query{{`max by (instance) (advisor_history_bytes{@})`, "{{instance}}"}}},
		{title: "Proxies", kind: lines, unit: count, description: "Proxies whose snapshots count.", queries: []query{{`max by (instance) (advisor_instances{@})`, "{{instance}}"}}},
	}
}
