package main

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"slices"

	"weir/bench/advisor"
	"weir/bench/attack"
	"weir/bench/chaos"
	"weir/bench/micro"
	"weir/bench/pacing"
	"weir/bench/restart"
	"weir/bench/rig"
	"weir/bench/scenario"
	"weir/bench/sidecar"
	"weir/bench/speed"
	"weir/bench/suite"
	"weir/internal/service"
)

// unkept are the experiments that are for the eye, or are others.
var unkept = []string{"suite", "demo", "demo-redis", "demo-postgres"}

// runSuite runs several experiments and keeps what they find: quick, usual, all,
// of these only those that are named after, or those that are named alone.
func runSuite(ctx context.Context, args []string, out io.Writer) error {
	name := "usual"
	if len(args) > 0 {
		name = args[0]
	}
	dir := order.Dir
	plan := suite.Plan{Dir: dir, Before: dir, Page: "BENCHMARKS.md"}
	switch name {
	case "quick": // for a look at one's own machine: the page keeps what was measured with more patience
		plan.Parts, plan.Dir, plan.Page = quick(filepath.Join(dir, "quick")), filepath.Join(dir, "quick"), ""
		plan.Lenient = true
	case "page":
		return plan.Show()
	case "usual":
		plan.Parts = usual(dir)
	case "all":
		plan.Parts = all(dir)
	default:
		for _, name := range args {
			at := slices.IndexFunc(experiments(), func(e experiment) bool { return e.name == name && !slices.Contains(unkept, name) })
			if at < 0 {
				return &service.ExitError{Status: 2, Err: fmt.Errorf("suite wants quick, usual, all, page, or names of experiments; there is none %q", name)}
			}
			plan.Parts = append(plan.Parts, suite.Part{Name: name, Run: experiments()[at].run})
		}
	}
	if sized := slices.Contains([]string{"quick", "usual", "all"}, name); sized && len(args) > 1 {
		plan.Parts = slices.DeleteFunc(plan.Parts, func(p suite.Part) bool { return !slices.Contains(args[1:], p.Name) })
	}
	return suite.Run(ctx, plan, out)
}

// quick takes three minutes.
func quick(dir string) []suite.Part {
	cases := scenario.Matrix([]string{"bursts"}, []string{"off", "token"}, []string{"simulated"}, []bool{false, true})
	return []suite.Part{
		{Name: "speed", Args: []string{"quick"}, Run: speed.Run},
		{Name: "scenario", Run: (&scenario.Order{Cases: cases, Compress: 180, Dir: dir}).Play},
	}
}

// usual takes twenty minutes.
func usual(dir string) []suite.Part {
	off, both, simulated := []bool{false}, []bool{false, true}, []string{"simulated"}
	var cases []scenario.Case
	for _, name := range []string{"steady", "bursts", "overload"} {
		cases = append(cases, scenario.Matrix([]string{name}, []string{"off", "fixed", "sliding", "token"}, simulated, off)...)
		cases = append(cases, scenario.Matrix([]string{name}, []string{"token"}, simulated, []bool{true})...)
	}
	cases = append(cases, scenario.Matrix([]string{"bursts"}, []string{"fixed"}, []string{"redis"}, off)...)
	cases = append(cases, scenario.Matrix([]string{"failure"}, []string{"off", "token"}, []string{"redis"}, both)...)
	return []suite.Part{
		{Name: "speed", Args: []string{"usual"}, Run: speed.Run},
		{Name: "micro", Run: micro.Run},
		{Name: "rules", Args: []string{"1"}, Run: speed.Rules},
		{Name: "scenario", Run: (&scenario.Order{Cases: cases, Compress: 120, Dir: dir}).Play},
		{Name: "advisor", Args: []string{"quick"}, Run: advisor.Run},
	}
}

// all is everything, the whole matrix of scenarios too.
func all(dir string) []suite.Part {
	whole := &scenario.Order{Algorithms: scenario.Algorithms(), Stores: scenario.Stores(), Advisors: []bool{false, true}, Compress: 60, Dir: dir}
	return []suite.Part{
		{Name: "speed", Args: []string{"all"}, Run: speed.Run},
		{Name: "micro", Args: []string{"1s"}, Run: micro.Run},
		{Name: "rules", Run: speed.Rules},
		{Name: "accuracy", Run: alone(scenario.Accuracy)},
		{Name: "outage", Run: alone(scenario.Outage)},
		{Name: "redis", Run: alone(scenario.Lost(rig.RedisStore))},
		{Name: "restart", Run: restart.Run},
		{Name: "chaos", Run: chaos.Run},
		{Name: "attack", Run: attack.Run},
		{Name: "pacing", Run: alone(pacing.Run)},
		{Name: "scenario", Run: whole.Play},
		{Name: "advisor", Args: []string{"all"}, Run: advisor.Run},
		{Name: "postgres", Args: []string{"1"}, Run: postgresRun},
		{Name: "sidecar", Run: sidecar.Run},
		{Name: "protect", Run: protectRun},
	}
}
