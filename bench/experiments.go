package main

import (
	"fmt"

	"weir/bench/deferred"
	"weir/bench/faults/attack"
	"weir/bench/faults/chaos"
	"weir/bench/faults/restart"
	"weir/bench/forecast/advisor"
	"weir/bench/lab/rig"
	"weir/bench/limits/decision"
	"weir/bench/limits/demo"
	"weir/bench/limits/micro"
	"weir/bench/limits/postgres"
	"weir/bench/limits/scenario"
	"weir/bench/limits/sidecar"
	"weir/bench/limits/speed"
	"weir/bench/overload/protect"
	"weir/bench/pacing"
)

// An experiment is a command of bench.
type experiment struct {
	name, about string // about is empty for commands that bench starts itself
	run         func(l *rig.Lab, args []string)
}

func experiments() []experiment {
	return []experiment{
		{"demo", "a load below and above a limit with each algorithm (half a minute)", alone(demo.Run)},
		{"demo-gate", "a target loses half its speed, without the gate and with it; draws a picture of both (a minute)",
			alone(protect.Demo)},
		{"accuracy", "2,000/s through a limit of 1,000/s for a minute with each algorithm, counted at the target",
			alone(scenario.Accuracy)},
		{"outage", "kills and restarts the target under load: what clients see, second by second", alone(scenario.Outage)},
		{"demo-redis", "two proxies share a limit; Redis is killed and restarted: counts of each second (20 s)",
			alone(scenario.StoreLoss(rig.RedisStore, 20))},
		{"redis", "the same for a minute", alone(scenario.StoreLoss(rig.RedisStore, 60))},
		{"demo-postgres", "demo-redis with PostgreSQL (20 s)", alone(scenario.StoreLoss(rig.PostgresStore, 20))},
		{"demo-deferred", "[file|redis|postgres] shops send five times their limits; refused orders are delivered later, " +
			"in order and within the limits (half a minute per queue)", deferred.Demo},
		{"speed", "[quick|usual|all|http2] proxy, target and load generator compared with nginx, HAProxy and wrk: ratios " +
			"within one run (up to ten minutes); http2 compares HTTP/2 and gRPC (three minutes)", speed.Run},
		{"attack", "[NAME…] attacks during good traffic: their effect on it, their cost, and when attackers are " +
			"disconnected; attacks on what clients share, beside a good client; http2 plays those by HTTP/2 (18 minutes)",
			attack.Run},
		{"chaos", "[EXCHANGES] a million exchanges, a third by HTTP/2, to a target of both, with resets, half " +
			"closes, tunnels, splits, slow peers and restarts of the target (three minutes)", chaos.Run},
		{"restart", "[TIMES] replaces the proxy twenty times under load: failures of clients (a minute)", restart.Run},
		{"rules", "[SECONDS] the cost of ten rules, two of which match: CPU per request relative to the global " +
			"limit alone (a minute)", speed.Rules},
		{"scenario", "[NAME…] [-compress N] the four scenarios with each algorithm, with and without the advisor: tables, " +
			"plots, a page (a minute each)", order.Run},
		{"advisor", "[quick|all] [WORD…] the accuracy of the advisor's forecasts, and the advisor compared with other " +
			"ways to choose a limit; only scenarios with all words in their name (with five seeds of each: ten " +
			"minutes, all fifty)", advisor.Run},
		{"protect", "[-rounds N] [-only NAMES] an overloaded target behind nothing, a limit, the gate, HAProxy and " +
			"failsafe-go: the share answered in time of what was possible; resumes where it was stopped (130 minutes)",
			protectRun},
		{"postgres", "[N] [load|deadlock|goals] a limit in PostgreSQL in three common ways and with Weir: requests " +
			"admitted, deadlocks, cost of a decision; a load of ten minutes played N times as fast, 10 by " +
			"default (nine minutes)", postgresRun},
		{"sidecar", "[share|failures|speed] sidecars of a master share a limit while one is killed and one added; the " +
			"master fails in eight ways; speed (five minutes)", sidecar.Run},
		{"decision", "[speed|grpc|pace|frozen] Envoy's rate limit service: decisions per CPU time compared with " +
			"envoyproxy/ratelimit on the same Redis, waits at 5,000/s, and waits with Redis stopped (two minutes)",
			decision.Run},
		{"deferred", "[accept|deliveries|live|redis|postgres] deferred delivery with a queue in a file: storing 5,000/s, " +
			"100,000 waiting requests, delay and rate of deliveries, cost for live requests; redis and postgres: delay and " +
			"rate of deliveries from there (two and a half minutes)", deferred.Run},
		{"pacing", "when requests of load generators arrive, compared with when they are due (five minutes)",
			alone(pacing.Run)},
		{"micro", "[TIME] the Go benchmarks of the packages, in one table (a minute)", micro.Run},
		{"suite", "[quick|usual|all|page|NAME…] runs several experiments and records them; all but quick refresh " +
			"BENCHMARKS.md, page only refreshes it (3 minutes, 20 minutes, five and a half hours)", runSuite},
		{attack.TargetName, "", attack.Target},
		{postgres.LimiterServerName, "", postgres.LimiterServer},
	}
}

// alone wraps an experiment without arguments.
func alone(run func(l *rig.Lab)) func(l *rig.Lab, args []string) {
	return func(l *rig.Lab, args []string) {
		if len(args) > 0 {
			rig.UsageError("the experiment takes no argument %q", args[0])
		}
		run(l)
	}
}

// find returns the experiment of that name; nil if there is none.
func find(name string) *experiment {
	for _, e := range experiments() {
		if e.name == name {
			return &e
		}
	}
	return nil
}

// usage lists the experiments, each in a line.
func usage() string {
	text := "bench needs the name of one experiment:\n"
	for _, x := range experiments() {
		if x.about != "" {
			text += fmt.Sprintf("  bench %-13s  %s\n", x.name, x.about)
		}
	}
	return text
}
