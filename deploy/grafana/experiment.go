package main

// experiment is the board to watch an experiment on: what was asked for, what
// the limiter did, and what became of the answers.
func experiment() board {
	return board{
		name: "experiment", title: "Weir: experiment", probe: "ratelimiter_requests_total",
		description: "One experiment at a glance: how long passing the limiter takes, response times, success, and what was admitted and refused. Totals count from the start of the proxies.",
		rows: []row{
			{"Decisions", experimentDecisions()},
			{"Passing the limiter", experimentLimiter()},
			{"Response time", experimentTime()},
			{"Load, limit and forecast", experimentLoad()},
		},
	}
}

func experimentDecisions() []panel {
	decided := func(decision string) string { return `sum(ratelimiter_requests_total{@, decision="` + decision + `"})` }
	const all = `sum(ratelimiter_requests_total{@})`
	return []panel{
		{title: "Admitted", kind: now, unit: count, description: "Requests admitted since the proxies started.", queries: []query{{decided("forwarded"), "admitted"}}},
		{title: "Admitted, share", kind: now, unit: share, top: 1, description: "Of all requests since the proxies started.", queries: []query{{decided("forwarded") + " / " + all, "admitted"}}},
		{title: "Refused", kind: now, unit: count, description: "Requests refused since the proxies started.", queries: []query{{decided("rejected"), "refused"}}},
		{title: "Refused, share", kind: now, unit: share, top: 1, description: "Of all requests since the proxies started.", queries: []query{{decided("rejected") + " / " + all, "refused"}}},
		{title: "Successful", kind: now, unit: share, top: 1, steps: needed(0.99, 0.9), description: "Share of the answers that are 2xx or 3xx, now.",
			queries: []query{{successes + " / " + answers, "successful"}}},
		{title: "Successful, of admitted", kind: now, unit: share, top: 1, steps: needed(0.99, 0.9), description: "Share of the answers other than 429 that are 2xx or 3xx, now.",
			queries: []query{{successes + ` / sum(rate(ratelimiter_responses_total{@, code!="429"}[~]))`, "successful"}}},
		{title: "Decisions", kind: lines, unit: perSecond, stacked: true, description: "Requests per second by what was decided.",
			queries: []query{{forwarding, "admitted"}, {refusing, "refused"}}},
		{title: "Share of successful requests", kind: lines, unit: share, top: 1, description: "Of all answers, and of those other than 429.",
			queries: []query{{successes + " / " + answers, "of all"}, {successes + ` / sum(rate(ratelimiter_responses_total{@, code!="429"}[~]))`, "of admitted"}}},
		{title: "Successful calls by method", kind: bars, unit: count, width: 8, description: "Answers 2xx and 3xx since the proxies started.",
			queries: []query{{`sum by (method) (ratelimiter_requests_by_method_total{@, code=~"[23].."})`, "{{method}}"}}},
	}
}

const (
	answers   = `sum(rate(ratelimiter_responses_total{@}[~]))`
	successes = `(sum(rate(ratelimiter_responses_total{@, code=~"[23].."}[~])) or vector(0))`
)

func experimentLimiter() []panel {
	longest := func(decision string) string {
		return `max(ratelimiter_decision_duration_seconds_max{@, decision="` + decision + `"})`
	}
	average := func(decision string) string { return mean(decideTime, `, decision="`+decision+`"`, "") }
	return []panel{
		{title: "Admitted, max", kind: now, unit: seconds, steps: good(0.05, 0.1), description: "The longest that passing the limiter took an admitted request in the last minute.", queries: []query{{longest("forwarded"), "max"}}},
		{title: "Admitted, mean", kind: now, unit: seconds, steps: good(0.01, 0.05), description: "How long passing the limiter takes an admitted request.", queries: []query{{average("forwarded"), "mean"}}},
		{title: "Refused, max", kind: now, unit: seconds, steps: good(0.05, 0.1), description: "The longest that passing the limiter took a refused request in the last minute.", queries: []query{{longest("rejected"), "max"}}},
		{title: "Refused, mean", kind: now, unit: seconds, steps: good(0.01, 0.05), description: "How long passing the limiter takes a refused request.", queries: []query{{average("rejected"), "mean"}}},
		{title: "Max", kind: lines, unit: seconds, width: 12, description: "The longest that passing the limiter took in the last minute.",
			queries: []query{{longest("forwarded"), "admitted"}, {longest("rejected"), "refused"}}},
		{title: "Mean", kind: lines, unit: seconds, width: 12, description: "How long passing the limiter takes.",
			queries: []query{{average("forwarded"), "admitted"}, {average("rejected"), "refused"}}},
	}
}

func experimentTime() []panel {
	const admitted = `, decision="forwarded"`
	return []panel{
		{title: "p99 now", kind: now, unit: seconds, steps: good(0.25, 1), description: "Of admitted requests at the proxy, from the first byte read to the last byte written.", queries: []query{{quantile("0.99", requestTime, admitted, ""), "p99"}}},
		{title: "Mean now", kind: now, unit: seconds, steps: good(0.1, 0.5), description: "Of admitted requests at the proxy.", queries: []query{{mean(requestTime, admitted, ""), "mean"}}},
		{title: "p99 felt now", kind: now, unit: seconds, steps: good(0.25, 1), description: "Of all requests at the load generators, from when they were due.", queries: []query{{unchosen(quantile("0.99", felt, "", "")), "p99"}}},
		{title: "Mean felt now", kind: now, unit: seconds, steps: good(0.1, 0.5), description: "Of all requests at the load generators, from when they were due.", queries: []query{{unchosen(mean(felt, "", "")), "mean"}}},
		{title: "p99", kind: lines, unit: seconds, width: 12, description: "Of requests at the proxy, and as the load generators felt them.",
			queries: []query{
				{quantile("0.99", requestTime, "", "decision"), "{{decision}}"}, {unchosen(quantile("0.99", felt, "", "")), "felt"}, {unchosen(quantile("0.99", served, "", "")), "at the target"},
			}},
		{title: "Mean", kind: lines, unit: seconds, width: 12, description: "Of requests at the proxy, and as the load generators felt them.",
			queries: []query{
				{mean(requestTime, "", "decision"), "{{decision}}"}, {unchosen(mean(felt, "", "")), "felt"}, {unchosen(mean(served, "", "")), "at the target"},
			}},
	}
}

func experimentLoad() []panel {
	return []panel{
		{title: "Offered, admitted and limit", kind: lines, unit: perSecond, width: 12, description: "What the load generators ask for, what arrives, what is admitted, and the sustained rate that the global limit allows.",
			queries: []query{{`sum(loadgen_target_rps)`, "offered"}, {arriving, "arriving"}, {forwarding, "admitted"}, {limitRate, "limit"}}},
		{title: "Forecast", kind: lines, unit: perSecond, width: 12, description: "What the advisor expects and recommends, beside what arrives.",
			queries: []query{{`max(advisor_predicted_rps)`, "predicted"}, {`max(advisor_recommended_limit)`, "recommended"}, {arriving, "arriving"}}},
		{title: "Outcomes at the load generators", kind: lines, unit: perSecond, stacked: true, description: "Finished requests by outcome.",
			queries: []query{{`sum by (status) (rate(loadgen_requests_total[~]))`, "{{status}}"}}},
		{title: "Queue of the target", kind: lines, unit: count, description: "Requests that wait for a worker, and those being served.",
			queries: []query{{`sum(target_queue_length)`, "waiting"}, {`sum(target_workers_busy)`, "served"}}},
		{title: "Mode of the store", kind: lines, unit: count, stacked: true, description: "Proxies by mode: during failopen all is admitted.",
			queries: []query{{`sum by (type) (ratelimiter_mode{@})`, "{{type}}"}}},
	}
}
