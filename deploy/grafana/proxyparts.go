package main

func proxyStore() []panel {
	return []panel{
		{title: "Time of the store", kind: lines, unit: seconds, steps: good(0.05, 0.1), description: "How long Redis took to answer a batch; REDIS_TIMEOUT is 100 ms by default. Without REDIS_HOST there is nothing to show.",
			queries: quantiles(storeTime, "")},
		{title: "Errors of the store", kind: lines, unit: events, steps: good(0.1, 1), description: "Calls without a usable answer: each such decision follows STORE_FAILURE_MODE.",
			queries: []query{
				{`sum by (instance) (rate(ratelimiter_redis_errors_total{@}[~]))`, "{{instance}}"},
				{`sum by (instance) (rate(ratelimiter_redis_document_errors_total{@}[~]))`, "{{instance}} stored configuration"},
			}},
		{title: "Connected", kind: lines, unit: count, top: 1, description: "1 while Redis decides.",
			queries: []query{{`min by (instance) (ratelimiter_redis_connected{@})`, "{{instance}}"}}},
		{title: "Commands per decision", kind: lines, unit: count, description: "Below 1 decisions share commands: the busier, the fewer.",
			queries: []query{{`sum(rate(ratelimiter_store_commands_total{@}[~])) / sum(rate(ratelimiter_store_decisions_total{@}[~]))`, "commands"}}},
		{title: "Work of the store", kind: lines, unit: events, description: "Decisions that the store made, commands it was given for them, and refusals answered from memory until their time to retry.",
			queries: []query{
				{`sum(rate(ratelimiter_store_decisions_total{@}[~]))`, "decisions"}, {`sum(rate(ratelimiter_store_commands_total{@}[~]))`, "commands"},
				{`sum(rate(ratelimiter_store_remembered_total{@}[~]))`, "remembered"},
			}},
		{title: "Mode", kind: lines, unit: count, stacked: true, description: "Proxies by mode.",
			queries: []query{{`sum by (type) (ratelimiter_mode{@})`, "{{type}}"}}},
		{title: "Faults seen", kind: lines, unit: events, description: "Scripts that had to be sent again, and places in queues that could not be given back.",
			queries: []query{
				{`sum(rate(ratelimiter_redis_script_reloads_total{@}[~]))`, "script sent again"}, {`sum(rate(ratelimiter_store_unreleased_total{@}[~]))`, "not given back"},
			}},
		{title: "Keys in the simulated Redis", kind: lines, unit: count, description: "Keys that each proxy holds by itself: all of them without REDIS_HOST, those of mode local with it.",
			queries: []query{{`sum by (instance) (ratelimiter_store_keys{@})`, "{{instance}}"}}},
	}
}

func proxyTargets() []panel {
	return []panel{
		{title: "Time of the targets", kind: lines, unit: seconds, description: "From sending a request to its complete answer.", queries: quantiles(targetTime, "")},
		{title: "Requests at the targets", kind: lines, unit: count, description: "Sent and not answered.",
			queries: []query{{`sum by (instance) (ratelimiter_upstream_in_flight{@})`, "{{instance}}"}}},
		{title: "Connections to targets", kind: lines, unit: count, stacked: true, description: "By state.",
			queries: []query{{`sum by (state) (ratelimiter_upstream_connections{@})`, "{{state}}"}}},
		{title: "Errors of the targets", kind: lines, unit: events, description: "Requests that a target did not answer, by kind.",
			queries: []query{{`sum by (kind) (rate(ratelimiter_upstream_errors_total{@}[~]))`, "{{kind}}"}}},
		{title: "Sent once more", kind: lines, unit: events, description: "On a fresh connection, as the one before was gone.",
			queries: []query{{`sum by (instance) (rate(ratelimiter_upstream_retries_total{@}[~]))`, "{{instance}}"}}},
		{title: "Up", kind: lines, unit: count, top: 1, description: "1 for a target that every proxy can reach. Without ADMIN_PORT targets have numbers: GET /config/targets has their addresses.",
			queries: []query{{`min by (target) (ratelimiter_upstream_up{@})`, "target {{target}}"}}},
	}
}

func proxyGate() []panel {
	return []panel{
		{title: "Limit, in flight and waiting", kind: lines, unit: count, width: 12, description: "How many requests may be at each target, how many are, and how many wait for a place. With GATE=off there is nothing to show.",
			queries: []query{
				{`sum by (target) (ratelimiter_gate_limit{@})`, "limit {{target}}"}, {`sum by (target) (ratelimiter_gate_in_flight{@})`, "in flight {{target}}"},
				{`sum by (target) (ratelimiter_gate_waiting{@})`, "waiting {{target}}"},
			}},
		{title: "Median and baseline", kind: lines, unit: seconds, width: 12, description: "Median answer time of each target, beside what it is without a queue, at the proxy where it is longest.",
			queries: []query{{`max by (target) (ratelimiter_gate_median_seconds{@})`, "median {{target}}"}, {`max by (target) (ratelimiter_gate_baseline_seconds{@})`, "baseline {{target}}"}}},
		{title: "Shed", kind: lines, unit: perSecond, steps: good(0.1, 10), description: "Requests answered 503 as no place became free in time, by priority class; of GATE=shadow those that would have had to wait.",
			queries: []query{
				{`sum by (target, class) (rate(ratelimiter_gate_shed_total{@}[~]))`, "{{target}} {{class}}"}, {`sum(rate(ratelimiter_gate_would_wait_total{@}[~]))`, "would wait"},
			}},
		{title: "Cuts of the limit", kind: lines, unit: events, description: "Falls of a limit: latency, as requests waited in the target; errors, as it refused them.",
			queries: []query{{`sum by (target, reason) (rate(ratelimiter_gate_cuts_total{@}[~]))`, "{{target}} {{reason}}"}}},
		{title: "Above the floor", kind: lines, unit: count, description: "How far each limit is above the least that it may be, at the proxy where it is nearest.",
			queries: []query{{`min by (target) (ratelimiter_gate_limit{@} - ratelimiter_gate_limit_min{@})`, "{{target}}"}}},
	}
}

func proxyDeferred() []panel {
	return []panel{
		{title: "Waiting", kind: lines, unit: count, description: "Refused requests that are stored and not delivered yet, by rule. Without DEFER_URL there is nothing to show.",
			queries: []query{{`sum by (rule) (ratelimiter_deferred_waiting{@})`, "{{rule}}"}}},
		{title: "Oldest", kind: lines, unit: seconds, description: "How long the oldest of them has waited, beside how long it may.",
			queries: []query{{`max by (rule) (ratelimiter_deferred_oldest_seconds{@})`, "{{rule}}"}, {`max by (rule) (ratelimiter_deferred_for_seconds{@})`, "{{rule}} may"}}},
		{title: "Stored", kind: lines, unit: perSecond, description: "What came of storing: full is a bound that was reached, unstored a disk that takes nothing.",
			queries: []query{{`sum by (rule, outcome) (rate(ratelimiter_deferred_total{@}[~]))`, "{{rule}} {{outcome}}"}}},
		{title: "Deliveries", kind: lines, unit: perSecond, description: "What came of deliveries. Refused ones are no attempts: the limit had no room yet.",
			queries: []query{{`sum by (rule, outcome) (rate(ratelimiter_deferred_deliveries_total{@}[~]))`, "{{rule}} {{outcome}}"}}},
		{title: "Dead letters", kind: lines, unit: count, steps: good(1, 100), description: "Failed, expired or unknown: GET /config/deferred lists them, POST plays them again.",
			queries: []query{{`sum by (rule) (ratelimiter_deferred_dead{@})`, "{{rule}}"}}},
		{title: "Time to store", kind: lines, unit: seconds, description: "Until a stored request is durable.", queries: quantiles("ratelimiter_deferred_store_seconds", "")},
		{title: "Time to deliver", kind: lines, unit: seconds, description: "From accepting a request to the target's final answer.", queries: quantiles("ratelimiter_deferred_wait_seconds", "")},
		{title: "Bytes", kind: lines, unit: count, description: "Of stored requests and results.",
			queries: []query{{`sum by (instance) (ratelimiter_deferred_bytes{@})`, "{{instance}}"}, {`sum by (instance) (ratelimiter_deferred_unreadable{@})`, "{{instance}} unreadable entries"}}},
	}
}

func proxyClients() []panel {
	return []panel{
		{title: "Connections of clients", kind: lines, unit: count, description: "Open ones.",
			queries: []query{{`sum by (instance) (ratelimiter_client_connections{@})`, "{{instance}}"}}},
		{title: "Given up", kind: lines, unit: events, description: "Connections refused or closed, and requests whose client left before the answer.",
			queries: []query{
				{`sum(rate(ratelimiter_client_connections_refused_total{@}[~]))`, "too many connections"}, {`sum(rate(ratelimiter_client_stalls_total{@}[~]))`, "took nothing of its answers"},
				{`sum(rate(ratelimiter_requests_abandoned_total{@}[~]))`, "left before the answer"}, {`sum(rate(ratelimiter_accept_errors_total{@}[~]))`, "could not be accepted"},
			}},
		{title: "Under pressure", kind: lines, unit: events, description: "Reading paused for slow readers, requests turned away as the memory budget was spent, faults of the proxy itself.",
			queries: []query{
				{`sum(rate(ratelimiter_client_pauses_total{@}[~]))`, "reading paused"}, {`sum(rate(ratelimiter_memory_sheds_total{@}[~]))`, "memory spent"},
				{`sum(rate(ratelimiter_panics_total{@}[~]))`, "faults"},
			}},
	}
}

func proxyAdaptive() []panel {
	return []panel{
		{title: "Predicted, arriving and limit", kind: lines, unit: perSecond, description: "What the advisor expects, beside what came and what is allowed.",
			queries: []query{{`max(ratelimiter_adaptive_predicted_rps{@})`, "predicted"}, {arriving, "arriving"}, {limitRate, "limit"}}},
		{title: "Updates", kind: lines, unit: events, description: "What became of the proxy's questions to the advisor.",
			queries: []query{{`sum by (result) (rate(ratelimiter_adaptive_updates_total{@}[~]))`, "{{result}}"}}},
		{title: "Last recommendation", kind: now, unit: seconds, steps: good(120, 600), description: "How long ago the newest was received.",
			queries: []query{{`time() - max(ratelimiter_adaptive_last_success_timestamp_seconds{@})`, "ago"}}},
		{title: "Stale", kind: now, unit: count, steps: good(0.5, 1), description: "Proxies that have had no fresh recommendation for ADAPTIVE_STALE_AFTER updates.",
			queries: []query{{`sum(ratelimiter_adaptive_stale{@})`, "stale"}}},
		{title: "Leaders", kind: now, unit: count, steps: []step{{1.5, "orange"}}, description: "Proxies that apply recommendations: one among those that share a store.",
			queries: []query{{`sum(ratelimiter_adaptive_leader{@})`, "leaders"}}},
	}
}

// process is what every program tells of itself.
func process() []panel {
	return []panel{
		{title: "Processor", kind: lines, unit: cores, description: "Cores in use.",
			queries: []query{{`sum by (instance) (rate(process_cpu_seconds_total{@}[~]))`, "{{instance}}"}}},
		{title: "Memory", kind: lines, unit: size, description: "Resident, and what Go's heap holds of it.",
			queries: []query{{`sum by (instance) (process_resident_memory_bytes{@})`, "{{instance}} resident"}, {`sum by (instance) (go_memstats_heap_inuse_bytes{@})`, "{{instance}} heap"}}},
		{title: "Goroutines and descriptors", kind: lines, unit: count, description: "Both are bounded in a program that is well.",
			queries: []query{{`sum by (instance) (go_goroutines{@})`, "{{instance}} goroutines"}, {`sum by (instance) (process_open_fds{@})`, "{{instance}} descriptors"}}},
	}
}
