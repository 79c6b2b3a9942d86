package main

// postgres is the board of limits in PostgreSQL: what an application looks at, then the
// store.
func postgres() board {
	const (
		answers  = `sum(rate(ratelimiter_responses_total{@}[~]))`
		passed   = `sum(rate(ratelimiter_rule_decisions_total{@, decision="forwarded"}[~]))`
		refused  = `sum(rate(ratelimiter_rule_decisions_total{@, decision="rejected"}[~]))`
		batches  = `rate(ratelimiter_store_commands_total{@}[~])`
		decided  = `rate(ratelimiter_store_decisions_total{@}[~])`
		exchange = "ratelimiter_postgres_request_duration_seconds"
	)
	good2xx := func(method string) []query {
		return []query{{`sum(rate(ratelimiter_requests_by_method_total{@, method="` + method + `", code=~"2.."}[~]))`, method}}
	}
	return board{
		name: "postgres", title: "Weir: limits in PostgreSQL", probe: "ratelimiter_postgres_connected",
		description: "What an application sees of limits that are kept in PostgreSQL, and how the database is.",
		rows: []row{
			{"Requests", []panel{
				{title: "Longest time through the limiter", kind: lines, unit: seconds, description: "The slowest decision of the last minute, by proxy.",
					queries: []query{{`max by (instance, decision) (ratelimiter_decision_duration_seconds_max{@})`, "{{instance}} {{decision}}"}}},
				{title: "p99 of requests", kind: lines, unit: seconds, description: "From the first byte read to the last byte written.",
					queries: []query{{quantile("0.99", requestTime, "", "decision"), "{{decision}}"}}},
				{title: "Mean time through the limiter", kind: lines, unit: seconds, description: "How long a decision took, with the database.",
					queries: []query{{mean(decideTime, "", "decision"), "{{decision}}"}}},
				{title: "Mean time of requests", kind: lines, unit: seconds, description: "From the first byte read to the last byte written, by proxy.",
					queries: []query{{mean(requestTime, "", "instance"), "{{instance}}"}}},
				{title: "Answered 2xx", kind: now, unit: share, top: 1, description: "Share of all answers.",
					queries: []query{{`sum(rate(ratelimiter_responses_total{@, code=~"2.."}[~])) / ` + answers, "2xx"}}},
				{title: "Mean time now", kind: now, unit: seconds, description: "Of requests, from the first byte read to the last byte written.",
					queries: []query{{mean(requestTime, "", ""), "mean"}}},
				{title: "Successful GET", kind: lines, unit: perSecond, description: "GET requests that were answered 2xx.", queries: good2xx("GET")},
				{title: "Successful POST", kind: lines, unit: perSecond, description: "POST requests that were answered 2xx.", queries: good2xx("POST")},
				{title: "Passed", kind: lines, unit: perSecond, description: "Requests that rules let pass.", queries: []query{{passed, "passed"}}},
				{title: "Refused", kind: lines, unit: perSecond, description: "Requests that rules refused.", queries: []query{{refused, "refused"}}},
				{title: "Share passed", kind: now, unit: share, top: 1, description: "Of the decisions of rules.", queries: []query{{passed + " / (" + passed + " + " + refused + ")", "passed"}}},
				{title: "Share refused", kind: now, unit: share, top: 1, description: "Of the decisions of rules.", queries: []query{{refused + " / (" + passed + " + " + refused + ")", "refused"}}},
			}},
			{"PostgreSQL", []panel{
				{title: "Connected", kind: now, unit: count, steps: needed(1, 0.5), description: "1 while PostgreSQL decides, of the proxy that is worst off.",
					queries: []query{{`min(ratelimiter_postgres_connected{@})`, "connected"}}},
				{title: "Statements", kind: lines, unit: events, description: "Statements per second: each decides all requests that wait.",
					queries: []query{{"sum by (instance) (" + batches + ")", "{{instance}}"}}},
				{title: "Decisions per statement", kind: lines, unit: count, description: "More under load: requests that wait are decided together.",
					queries: []query{{"sum by (instance) (" + decided + ") / sum by (instance) (" + batches + ")", "{{instance}}"}}},
				{title: "Time of a statement", kind: lines, unit: seconds, steps: good(0.02, 0.05), description: "Until PostgreSQL has answered a batch. At POSTGRES_TIMEOUT requests follow the failure mode.", queries: quantiles(exchange, "")},
				{title: "Lock waits", kind: lines, unit: events, description: "Locks of keys that another batch held.",
					queries: []query{{`sum by (instance) (rate(ratelimiter_postgres_lock_waits_total{@}[~]))`, "{{instance}}"}}},
				{title: "Errors", kind: lines, unit: events, stacked: true, description: "Statements without a usable answer, by class of SQLSTATE.",
					queries: []query{{`sum by (class) (rate(ratelimiter_postgres_errors_total{@}[~]))`, "{{class}}"}}},
				{title: "Dead rows", kind: lines, unit: count, description: "Old versions of rows that are not removed yet. They grow while a transaction stays open in this database, and busy keys become slow.",
					queries: []query{{`max(ratelimiter_postgres_dead_rows{@})`, "dead rows"}}},
				{title: "Oldest transaction", kind: lines, unit: seconds, steps: good(10, 60), description: "Of this database. It keeps dead rows alive.",
					queries: []query{{`max(ratelimiter_postgres_oldest_transaction_seconds{@})`, "oldest"}}},
				{title: "Size", kind: lines, unit: size, description: "Of the tables of keys, with their indexes.",
					queries: []query{{`max(ratelimiter_postgres_table_bytes{@})`, "tables"}}},
			}},
		},
	}
}
