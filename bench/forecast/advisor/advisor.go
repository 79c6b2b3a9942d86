// Package advisor measures the benefit of the advisor: the accuracy of its forecasts, and
// the share of a target's capacity that clients receive when it sets the limit, compared
// with other ways to set one.
package advisor

import (
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"weir/bench/forecast/closedloop"
	"weir/bench/lab/result"
	"weir/bench/lab/rig"
)

const (
	traceDir  = "../shared/traces"
	resultDir = "bench/results/advisor"
	partDir   = "bench/results/advisor-part" // of a run of some scenarios only
)

// Run runs the experiment in the size quick or all, or only its scenarios whose names
// contain all further words. It prints tables, and writes plots and a page. A bound that
// was not met is shown in a table, and is not an error.
func Run(l *rig.Lab, args []string) {
	z, words := sizeOf(args)
	all, madeUp := traces(traceDir)
	scenarios := wanted(z.matrix(all), words)
	if len(scenarios) == 0 {
		rig.UsageError("no scenario has all of %q in its name", words)
	}
	if madeUp {
		l.Note("There are no traces in %s: the traffic is made up.", traceDir)
	}
	progress := progressTo(l.Out)
	if len(words) == 0 {
		forecasts(l.Ctx, l.Report, progress)
	}
	strategies := closedloop.Strategies()
	plays := play(l.Ctx, scenarios, strategies, progress)
	show(l.Report, plays, strategies)
	var fault error
	dir := resultDir
	switch {
	case len(words) > 0:
		dir = partDir
	case madeUp:
		dir, fault = partDir, fmt.Errorf("the traffic was made up, as there are no traces in %s: %w", traceDir,
			result.ErrNotRecorded)
	}
	if len(scenarios) == 1 {
		printLog(l.Report, scenarios[0], closedloop.Advisor())
	}
	write(dir, l.Record(time.Now(), fault), draw(plays, closedloop.Advisor(), dir))
	fmt.Fprintf(l, "  plots: %s/index.html\n", dir)
	rig.Check(fault)
}

func show(out *result.Report, plays []*played, strategies []closedloop.Strategy) {
	f := field{plays, strategies}
	f.printAll(out, "Closed loop", served)
	f.printAll(out, "How the limit moved", moved)
	f.printBy(out, "event", func(p *played) string { return p.Event })
	f.printBy(out, "trace", func(p *played) string { return p.Trace })
	f.printLosses(out)
	printVerdicts(out, f.judge(advisorName))
}

func sizeOf(args []string) (z size, words []string) {
	if len(args) == 0 {
		return sizes[0], nil
	}
	i := slices.IndexFunc(sizes, func(z size) bool { return z.name == args[0] })
	if i < 0 {
		rig.UsageError("advisor needs quick or all, and words of scenarios' names; got %q", args)
	}
	return sizes[i], args[1:]
}

// progressTo returns out if it is a terminal, and otherwise a writer that discards progress.
func progressTo(out io.Writer) io.Writer {
	if f, ok := out.(*os.File); ok {
		if info, err := f.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
			return f
		}
	}
	return io.Discard
}
