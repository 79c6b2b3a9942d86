package main

const (
	felt    = "loadgen_request_duration_seconds"
	service = "loadgen_service_duration_seconds"
	lag     = "loadgen_schedule_lag_seconds"
	served  = "http_server_requests_seconds"
	waited  = "target_queue_wait_seconds"
)

// loadgen is the board of the load generators.
func loadgen() board {
	return board{
		name: "loadgen", title: "Weir: load generator", probe: "loadgen_test_running",
		description: "What the load generators send, what comes back, and whether they keep their own schedule.",
		rows: []row{
			{"Now", []panel{
				{title: "Running", kind: now, unit: count, description: "Load generators that run a test.", queries: []query{{`sum(loadgen_test_running{@})`, "running"}}},
				{title: "Sending", kind: now, unit: perSecond, description: "Requests sent in the last second.", queries: []query{{`sum(loadgen_current_rps{@})`, "sent"}}},
				{title: "Success", kind: now, unit: share, top: 1, steps: needed(0.99, 0.9), description: "Share of the finished requests that were answered 2xx or 3xx.",
					queries: []query{{outcomes("success") + " / " + outcomes(""), "success"}}},
				{title: "Refused", kind: now, unit: share, top: 1, description: "Share of the finished requests that were answered 429.",
					queries: []query{{outcomes("rate_limited") + " / " + outcomes(""), "refused"}}},
				{title: "Errors", kind: now, unit: share, top: 1, steps: good(0.001, 0.01), description: "Share of the finished requests that failed otherwise.",
					queries: []query{{outcomes("error") + " / " + outcomes(""), "errors"}}},
				{title: "Lag p99", kind: now, unit: seconds, steps: good(0.005, 0.05), description: "How much later than due requests were sent: when this is large the generator, not the target, is measured.",
					queries: []query{{quantile("0.99", lag, "", ""), "p99"}}},
			}},
			{"Load", []panel{
				{title: "Rate", kind: lines, unit: perSecond, description: "What the profile asks for, and what was sent.",
					queries: []query{{`sum(loadgen_target_rps{@})`, "asked for"}, {`sum(loadgen_current_rps{@})`, "sent"}}},
				{title: "Outcomes", kind: lines, unit: perSecond, stacked: true, description: "Finished requests by outcome.",
					queries: []query{{`sum by (status) (rate(loadgen_requests_total{@}[~]))`, "{{status}}"}}},
				{title: "Errors by reason", kind: lines, unit: perSecond, stacked: true, description: "Requests that were neither answered well nor refused.",
					queries: []query{{`sum by (reason) (rate(loadgen_errors_total{@}[~]))`, "{{reason}}"}}},
			}},
			{"Time", []panel{
				{title: "Latency", kind: lines, unit: seconds, description: "From when a request was due to when it was done: what a user would have felt.", queries: quantiles(felt, "")},
				{title: "Service time", kind: lines, unit: seconds, description: "From when a request was sent to when it was done.", queries: quantiles(service, "")},
				{title: "Lag", kind: lines, unit: seconds, steps: good(0.005, 0.05), description: "How much later than due requests were sent.", queries: quantiles(lag, "")},
			}},
			{"Connections", []panel{
				{title: "In flight", kind: lines, unit: count, description: "Requests in flight.", queries: []query{{`sum by (instance) (loadgen_active_requests{@})`, "{{instance}}"}}},
				{title: "Connections", kind: lines, unit: count, description: "Open connections to the target.", queries: []query{{`sum by (instance) (loadgen_connections{@})`, "{{instance}}"}}},
			}},
			{"Process", process()},
		},
	}
}

// outcomes is the rate of requests that ended so; of all for an empty status.
func outcomes(status string) string {
	if status == "" {
		return `sum(rate(loadgen_requests_total{@}[~]))`
	}
	return `sum(rate(loadgen_requests_total{@, status="` + status + `"}[~]))`
}

// target is the board of the simulated targets.
func target() board {
	const all = `sum(rate(http_server_requests_seconds_count{@}[~]))`
	return board{
		name: "target", title: "Weir: target", probe: "target_workers_busy",
		description: "How the protected service feels: what it serves, how long that takes, and how many wait.",
		rows: []row{
			{"Now", []panel{
				{title: "Served", kind: now, unit: perSecond, description: "Answers per second.", queries: []query{{all, "served"}}},
				{title: "p99", kind: now, unit: seconds, steps: good(0.25, 1), description: "From the first byte of a request to its answer.", queries: []query{{quantile("0.99", served, "", ""), "p99"}}},
				{title: "Answered 5xx", kind: now, unit: share, top: 1, steps: good(0.01, 0.05), description: "Share of the answers: the queue was full, the wait too long, or the service failed.",
					queries: []query{{`(sum(rate(http_server_requests_seconds_count{@, status=~"5.."}[~])) or vector(0)) / ` + all, "5xx"}}},
				{title: "Workers busy", kind: now, unit: count, description: "Requests being served.", queries: []query{{`sum(target_workers_busy{@})`, "busy"}}},
				{title: "Waiting", kind: now, unit: count, steps: good(10, 100), description: "Requests that wait for a worker.", queries: []query{{`sum(target_queue_length{@})`, "waiting"}}},
				{title: "Wait p99", kind: now, unit: seconds, steps: good(0.1, 1), description: "How long requests waited for a worker.", queries: []query{{quantile("0.99", waited, "", ""), "p99"}}},
			}},
			{"Requests", []panel{
				{title: "By status", kind: lines, unit: perSecond, stacked: true, description: "Answers by status.",
					queries: []query{{`sum by (status) (rate(http_server_requests_seconds_count{@}[~]))`, "{{status}}"}}},
				{title: "By method", kind: lines, unit: perSecond, stacked: true, description: "Answers by method and place.",
					queries: []query{{`sum by (method, uri) (rate(http_server_requests_seconds_count{@}[~]))`, "{{method}} {{uri}}"}}},
				{title: "Time", kind: lines, unit: seconds, description: "From the first byte of a request to its answer.", queries: quantiles(served, "")},
			}},
			{"Capacity", []panel{
				{title: "Workers busy", kind: lines, unit: count, description: "Requests being served. At TARGET_WORKERS the queue grows.", queries: []query{{`sum by (instance) (target_workers_busy{@})`, "{{instance}}"}}},
				{title: "Queue", kind: lines, unit: count, steps: good(10, 100), description: "Requests that wait for a worker.", queries: []query{{`sum by (instance) (target_queue_length{@})`, "{{instance}}"}}},
				{title: "Wait", kind: lines, unit: seconds, description: "How long requests waited for a worker. Those refused at once are not counted.", queries: quantiles(waited, "")},
			}},
			{"Process", process()},
		},
	}
}
