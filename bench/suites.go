package main

import (
	"path/filepath"
	"slices"
	"strings"

	"weir/bench/lab/rig"
	"weir/bench/lab/suite"
	"weir/bench/limits/scenario"
)

// unkept are the experiments that are not recorded.
var unkept = []string{"suite", "demo", "demo-gate", "demo-redis", "demo-postgres"}

// runSuite runs and records several experiments: quick, usual or all, optionally restricted to
// the names that follow, or only those named.
func runSuite(l *rig.Lab, args []string) {
	name := "usual"
	if len(args) > 0 {
		name = args[0]
	}
	dir := order.Dir
	plan := suite.Plan{Dir: dir, Before: dir, Page: page(dir)}
	switch name {
	case "quick": // a first look: the page keeps the more thorough figures
		plan.Parts, plan.Dir, plan.Page = quick(filepath.Join(dir, "quick")), filepath.Join(dir, "quick"), ""
		plan.Lenient = true
	case "page":
		rig.Check(plan.Show())
		return
	case "usual":
		plan.Parts = usual(dir)
	case "all":
		plan.Parts = all(dir)
	default:
		for _, name := range args {
			if !kept(name) {
				rig.UsageError("suite needs quick, usual, all, page, or names of experiments; %q is not an experiment", name)
			}
		}
		plan.Parts = parts(args...)
	}
	if sized := slices.Contains([]string{"quick", "usual", "all"}, name); sized && len(args) > 1 {
		plan.Parts = slices.DeleteFunc(plan.Parts, func(p suite.Part) bool { return !slices.Contains(args[1:], p.Name) })
	}
	rig.Check(suite.Run(l.Ctx, plan, l))
}

// page returns the page that shows the records of dir. Only the default folder has one, so
// that other runs change no document.
func page(dir string) string {
	if filepath.Clean(dir) != filepath.Clean(scenario.ResultsDir) {
		return ""
	}
	return "BENCHMARKS.md"
}

// kept reports whether there is a recorded experiment of that name.
func kept(name string) bool {
	e := find(name)
	return e != nil && e.about != "" && !slices.Contains(unkept, name)
}

// parts returns experiments from commands, each a name with arguments.
func parts(commands ...string) (list []suite.Part) {
	for _, command := range commands {
		words := strings.Fields(command)
		list = append(list, suite.Part{Name: words[0], Args: words[1:], Run: find(words[0]).run})
	}
	return list
}

// scenarios returns cases of scenarios as a part.
func scenarios(o scenario.Options) suite.Part { return suite.Part{Name: "scenario", Run: o.Run} }

// quick takes three minutes.
func quick(dir string) []suite.Part {
	cases := scenario.Matrix([]string{"bursts"}, []string{"off", "token"}, []string{"simulated"}, []bool{false, true})
	return append(parts("speed quick"), scenarios(scenario.Options{Cases: cases, Compress: 180, Dir: dir}))
}

// usual takes twenty minutes.
func usual(dir string) []suite.Part {
	off, both, simulated := []bool{false}, []bool{false, true}, []string{"simulated"}
	var cases []scenario.Case
	for _, name := range []string{"steady", "bursts", "overload"} {
		cases = append(cases, scenario.Matrix([]string{name}, []string{"off", "fixed", "sliding", "token"}, simulated,
			off)...)
		cases = append(cases, scenario.Matrix([]string{name}, []string{"token"}, simulated, []bool{true})...)
	}
	cases = append(cases, scenario.Matrix([]string{"bursts"}, []string{"fixed"}, []string{"redis"}, off)...)
	cases = append(cases, scenario.Matrix([]string{"failure"}, []string{"off", "token"}, []string{"redis"}, both)...)
	return slices.Concat(parts("speed usual", "micro", "rules 1"),
		[]suite.Part{scenarios(scenario.Options{Cases: cases, Compress: 120, Dir: dir})}, parts("advisor quick"))
}

// all returns every experiment, with the full matrix of scenarios.
func all(dir string) []suite.Part {
	whole := scenario.Options{Cases: scenario.All(), Compress: 60, Dir: dir}
	return slices.Concat(parts("speed all", "micro 1s", "rules", "accuracy", "outage", "redis", "restart", "chaos",
		"attack", "pacing"),
		[]suite.Part{scenarios(whole)}, parts("advisor all", "postgres 1", "sidecar", "decision", "deferred", "protect"))
}
