// Bench asks questions about the whole system and prints the answers with
// their evidence.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"weir/bench/advisor"
	"weir/bench/attack"
	"weir/bench/chaos"
	"weir/bench/decision"
	"weir/bench/deferred"
	"weir/bench/demo"
	"weir/bench/micro"
	"weir/bench/pacing"
	"weir/bench/postgres"
	"weir/bench/protect"
	"weir/bench/restart"
	"weir/bench/rig"
	"weir/bench/scenario"
	"weir/bench/sidecar"
	"weir/bench/speed"
	"weir/internal/service"
)

// An experiment is something that bench can do.
type experiment struct {
	name, about string // without about: not for people
	run         func(ctx context.Context, args []string, out io.Writer) error
}

// experiments are what bench can do.
func experiments() []experiment {
	return []experiment{
		{"demo", "plays a load below and above a limit under each algorithm (half a minute)", alone(demo.Run)},
		{"accuracy", "2,000/s through a limit of 1,000/s for a minute under each algorithm, counted at the target", alone(scenario.Accuracy)},
		{"outage", "kills the target under load and starts it again: what clients see, second by second", alone(scenario.Outage)},
		{"demo-redis", "two proxies share a limit, Redis is killed and started again: what each second saw (20 s)", alone(scenario.LostDemo(rig.RedisStore))},
		{"redis", "the same for a minute", alone(scenario.Lost(rig.RedisStore))},
		{"demo-postgres", "demo-redis with PostgreSQL (20 s)", alone(scenario.LostDemo(rig.PostgresStore))},
		{"demo-deferred", "[file|redis|postgres] shops send five times their limits, what is refused is delivered later: all of it, in order, never above the limit (half a minute for each queue)", deferred.Demo},
		{"speed", "[quick|usual|all] proxy, target and load generator beside nginx, HAProxy and wrk: ratios within one run (up to ten minutes)", speed.Run},
		{"attack", "[NAME…] attackers beside good traffic: what it notices, what they cost, when they are gone (six minutes)", attack.Run},
		{"chaos", "[EXCHANGES] a million of them through resets, half closes, tunnels, splits, slow peers and restarts of the target (three minutes)", chaos.Run},
		{"restart", "[TIMES] replaces the proxy twenty times under load: what clients notice (a minute)", restart.Run},
		{"rules", "[SECONDS] what ten rules cost of which two match: CPU per request against the global limit alone (a minute)", speed.Rules},
		{"scenario", "[NAME…] [-compress N] the four situations under each algorithm, with and without the advisor: tables, plots, a page (a minute each)", order.Play},
		{"advisor", "[quick|all] [WORD…] how well the advisor forecasts, and what it is worth beside other ways to choose a limit; only scenarios with all words in their name (with five seeds of each: ten minutes, all fifty)", advisor.Run},
		{"protect", "[-rounds N] [-only NAMES] a target is overrun behind nothing, a limit, the gate, HAProxy and failsafe-go: what was answered in time of what could have been; goes on where it was stopped (95 minutes)", protectRun},
		{"postgres", "[N] [load|deadlock|goals] a limit in PostgreSQL by three common ways and by Weir: what is admitted, deadlocks, what a decision costs; N times as fast as ten minutes, 10 without (nine minutes)", postgresRun},
		{"sidecar", "[share|failures|speed] sidecars of a master share a limit while one is killed and one added, the master fails in eight ways, and how fast they are (five minutes)", sidecar.Run},
		{"decision", "[speed|pace|frozen] Envoy's rate limit service as JSON: decisions per processor time beside envoyproxy/ratelimit with the same Redis, waits at 5,000/s, and with Redis stopped (two minutes)", decision.Run},
		{"deferred", "[accept|deliveries|live|redis|postgres] refused requests that are delivered later: storing 5,000/s, 100,000 that wait, when and how fast they are delivered, what live requests pay, all with a queue in a file; redis and postgres: when and how fast they are delivered from there (two minutes and a half)", deferred.Run},
		{"pacing", "when requests of load generators arrive, against when they were due (five minutes)", alone(pacing.Run)},
		{"micro", "[TIME] the benchmarks beside the code, in one table (a minute)", micro.Run},
		{"suite", "[quick|usual|all|page|NAME…] several experiments, kept as records; but for quick BENCHMARKS.md is refreshed, page does nothing else (3 minutes, 20, nearly five hours)", runSuite},
		{attack.TargetName, "", attack.Target},
		{postgres.ServiceName, "", postgres.Service},
	}
}

// alone is an experiment without arguments.
func alone(run func(ctx context.Context, out io.Writer) error) func(context.Context, []string, io.Writer) error {
	return func(ctx context.Context, args []string, out io.Writer) error {
		if len(args) > 0 {
			return &service.ExitError{Status: 2, Err: fmt.Errorf("the experiment takes no argument %q", args[0])}
		}
		return run(ctx, out)
	}
}

// order and protection are what the settings say about scenarios, and about
// protect.
var (
	order      scenario.Order
	protection protect.Order
)

func register(s *service.Settings) {
	order.Register(s)
	protection.Register(s)
}

func protectRun(ctx context.Context, args []string, out io.Writer) error {
	protection.Dir = order.Dir
	return protection.Run(ctx, args, out)
}

func postgresRun(ctx context.Context, args []string, out io.Writer) error {
	return (&postgres.Order{Dir: order.Dir}).Run(ctx, args, out)
}

func main() {
	service.Main(service.Program{Name: "bench", LogName: "Bench", About: "experiments: " + names() + "; exit status 1: not as it should be, 3: inconclusive, as this machine was too busy for the load", Commands: commands(), Settings: register, Run: run})
}

// commands are the names of all experiments.
func commands() (list []string) {
	for _, e := range experiments() {
		list = append(list, e.name)
	}
	return list
}

func names() string {
	return strings.Join(slices.DeleteFunc(commands(), func(name string) bool { return name == attack.TargetName || name == postgres.ServiceName }), ", ")
}

func run(ctx context.Context, e *service.Env) error {
	if len(e.Args) == 0 {
		return usage("bench wants the name of one experiment")
	}
	for _, x := range experiments() {
		if x.name == e.Args[0] {
			err := x.run(ctx, e.Args[1:], os.Stdout)
			if ctx.Err() != nil { // what it had started has been ended
				return &service.ExitError{Status: 130, Err: errors.New("interrupted")}
			}
			return err
		}
	}
	panic("bug: service knows more commands than there are")
}

func usage(problem string) error {
	var b strings.Builder
	b.WriteString(problem + "; there are:")
	for _, x := range experiments() {
		if x.about == "" {
			continue
		}
		fmt.Fprintf(&b, "\n  bench %-10s %s", x.name, x.about)
	}
	return &service.ExitError{Status: 2, Err: fmt.Errorf("%s", b.String())}
}
