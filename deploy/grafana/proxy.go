package main

// proxy is the board of the proxies.
func proxy() board {
	return board{
		name: "proxy", title: "Weir: proxy", probe: "ratelimiter_requests_total",
		description: "What the proxies let through and refuse, how long that takes, and how their store and targets are.",
		rows: []row{
			{"Now", proxyNow()},
			{"Decisions", proxyDecisions()},
			{"Time", proxyTime()},
			{"Limit", proxyLimit()},
			{"Store", proxyStore()},
			{"Targets", proxyTargets()},
			{"Gate", proxyGate()},
			{"Delivered later", proxyDeferred()},
			{"Clients", proxyClients()},
			{"Adaptive limits", proxyAdaptive()},
			{"Process", process()},
		},
	}
}

// Expressions that several boards have.
const (
	arriving    = `sum(rate(ratelimiter_requests_total{@}[~]))`
	refusing    = `sum(rate(ratelimiter_requests_total{@, decision="rejected"}[~]))`
	forwarding  = `sum(rate(ratelimiter_requests_total{@, decision="forwarded"}[~]))`
	limitRate   = `max(ratelimiter_current_limit{@} / (ratelimiter_window_seconds{@} > 0) or ratelimiter_current_limit{@})`
	requestTime = "ratelimiter_request_duration_seconds"
	decideTime  = "ratelimiter_decision_duration_seconds"
	storeTime   = "ratelimiter_redis_request_duration_seconds"
	targetTime  = "ratelimiter_upstream_response_duration_seconds"
)

func proxyNow() []panel {
	return []panel{
		{title: "Arriving", kind: now, unit: perSecond, description: "Requests per second that reached a decision.", queries: []query{{arriving, "arriving"}}},
		{title: "Refused", kind: now, unit: share, top: 1, steps: good(0.1, 0.5), description: "Share of the requests that were refused.",
			queries: []query{{refusing + " / " + arriving, "refused"}}},
		{title: "Answered 5xx", kind: now, unit: share, top: 1, steps: good(0.01, 0.05), description: "Share of all answers that are 5xx, the targets' and the proxy's own.",
			queries: []query{{`(sum(rate(ratelimiter_responses_total{@, code=~"5.."}[~])) or vector(0)) / sum(rate(ratelimiter_responses_total{@}[~]))`, "5xx"}}},
		{title: "p99 of forwarded", kind: now, unit: seconds, steps: good(0.25, 1), description: "From the first byte read to the last byte written, of forwarded requests.",
			queries: []query{{quantile("0.99", requestTime, `, decision="forwarded"`, ""), "p99"}}},
		{title: "Store mode", kind: words, unit: count, description: "normal: the store decides. failopen: all is admitted. local: each proxy by itself. closed: all is refused.",
			queries: []query{{`sum by (type) (ratelimiter_mode{@}) > 0`, "{{type}}"}}},
		{title: "Targets up", kind: now, unit: count, steps: needed(1, 0.5), description: "Targets that can be reached, seen by the proxy that reaches fewest.",
			queries: []query{{`min(sum by (instance) (ratelimiter_upstream_up{@}))`, "up"}}},
	}
}

func proxyDecisions() []panel {
	return []panel{
		{title: "Decisions", kind: lines, unit: perSecond, stacked: true, description: "Requests per second by what was decided.",
			queries: []query{{`sum by (decision) (rate(ratelimiter_requests_total{@}[~]))`, "{{decision}}"}}},
		{title: "Share refused", kind: lines, unit: share, top: 1, steps: good(0.1, 0.5), description: "Of each proxy.",
			queries: []query{{`sum by (instance) (rate(ratelimiter_requests_total{@, decision="rejected"}[~])) / sum by (instance) (rate(ratelimiter_requests_total{@}[~]))`, "{{instance}}"}}},
		{title: "By rule", kind: lines, unit: perSecond, description: "What each rule decided. Rules in shadow count and never refuse.",
			queries: []query{{`sum by (rule, decision) (rate(ratelimiter_rule_decisions_total{@}[~]))`, "{{rule}} {{decision}}"}}},
		{title: "By algorithm", kind: lines, unit: perSecond, stacked: true, description: "The algorithm of the rule that refused or was tightest.",
			queries: []query{{`sum by (algorithm) (rate(ratelimiter_requests_by_algorithm_total{@}[~]))`, "{{algorithm}}"}}},
		{title: "Answers by status", kind: lines, unit: perSecond, stacked: true, description: "All answers to clients.",
			queries: []query{{`sum by (code) (rate(ratelimiter_responses_total{@}[~]))`, "{{code}}"}}},
		{title: "Answers by method", kind: lines, unit: perSecond, stacked: true, description: "All answers to clients.",
			queries: []query{{`sum by (method) (rate(ratelimiter_requests_by_method_total{@}[~]))`, "{{method}}"}}},
	}
}

func proxyTime() []panel {
	return []panel{
		{title: "Forwarded requests", kind: lines, unit: seconds, description: "From the first byte read to the last byte written.", queries: quantiles(requestTime, `, decision="forwarded"`)},
		{title: "Refused requests", kind: lines, unit: seconds, description: "A refusal must stay quick however many there are.", queries: quantiles(requestTime, `, decision="rejected"`)},
		{title: "Passing the limiter", kind: lines, unit: seconds, steps: good(0.01, 0.05), description: "How long a decision took, with the store.",
			queries: []query{
				{quantile("0.99", decideTime, "", "decision"), "p99 {{decision}}"},
				{mean(decideTime, "", "decision"), "mean {{decision}}"},
				{`max by (decision) (ratelimiter_decision_duration_seconds_max{@})`, "max of a minute {{decision}}"},
			}},
	}
}

// quantiles are the usual lines of a histogram.
func quantiles(metric, filter string) []query {
	return []query{
		{quantile("0.5", metric, filter, ""), "p50"},
		{quantile("0.95", metric, filter, ""), "p95"},
		{quantile("0.99", metric, filter, ""), "p99"},
		{mean(metric, filter, ""), "mean"},
	}
}

func proxyLimit() []panel {
	return []panel{
		{title: "Limit and traffic", kind: lines, unit: perSecond, width: 12, description: "The sustained rate that the global limit allows, beside what arrives and what is forwarded.",
			queries: []query{{limitRate, "limit"}, {arriving, "arriving"}, {forwarding, "forwarded"}}},
		{title: "Algorithm", kind: words, unit: count, description: "The algorithm of the global limit in force.",
			queries: []query{{`sum by (algorithm) (rate_limit_algorithm{@}) > 0`, "{{algorithm}}"}}},
		{title: "Parameters", kind: bars, unit: count, width: 8, description: "Of the global limit. Window and limit belong to the window algorithms, capacity and fill rate to the buckets.",
			queries: []query{
				{`max(ratelimiter_current_limit{@})`, "limit"}, {`max(ratelimiter_window_seconds{@})`, "window in seconds"},
				{`max(ratelimiter_bucket_capacity{@})`, "capacity"}, {`max(ratelimiter_token_fill_rate{@})`, "fill rate per second"},
			}},
		{title: "Not as stored", kind: lines, unit: count, description: "Proxies where something else is in force than the store holds, and proxies that ignore a file of rules or clients.",
			queries: []query{{`sum by (document) (ratelimiter_config_unstored{@})`, "{{document}}"}, {`sum(ratelimiter_rules_file_ignored{@})`, "file ignored"}}},
	}
}
