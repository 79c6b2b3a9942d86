// Package advisor measures the benefit of the advisor: the accuracy of its forecasts, and
// the share of a target's capacity that clients receive when it sets the limit, compared
// with other ways to set one.
package advisor

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"weir/bench/forecast/closedloop"
	"weir/bench/lab/result"
	"weir/bench/lab/rig"
	"weir/internal/program/service"
)

const (
	traceDir  = "../shared/traces"
	resultDir = "bench/results/advisor"
	partDir   = "bench/results/advisor-part" // of a run of some scenarios only
)

// Run runs the experiment in the size quick or all, or only its scenarios whose names
// contain all further words. It prints tables, and writes plots and a page. A bound that
// was not met is shown in a table, and is not an error.
func Run(ctx context.Context, args []string, out *result.Report) error {
	return rig.Try(func() {
		z, words, err := sizeOf(args)
		rig.Check(err)
		all, madeUp := traces(traceDir)
		scenarios := wanted(z.matrix(all), words)
		if len(scenarios) == 0 {
			rig.Check(&service.ExitError{Status: 2, Err: fmt.Errorf("no scenario has all of %q in its name", words)})
		}
		if madeUp {
			out.Note("There are no traces in %s: the traffic is made up.", traceDir)
		}
		progress := progressTo(out.Out)
		if len(words) == 0 {
			forecasts(ctx, out, progress)
		}
		contestants := closedloop.Contestants()
		plays := play(ctx, scenarios, contestants, progress)
		show(out, plays, contestants)
		var fault error
		dir := resultDir
		switch {
		case len(words) > 0:
			dir = partDir
		case madeUp:
			dir, fault = partDir, fmt.Errorf("the traffic was made up, as there are no traces in %s: %w", traceDir,
				result.ErrNotKept)
		}
		if len(scenarios) == 1 {
			printLog(out, scenarios[0], closedloop.Advisor())
		}
		write(dir, out.Record(time.Now(), fault), draw(plays, closedloop.Advisor(), dir))
		fmt.Fprintf(out, "  plots: %s/index.html\n", dir)
		rig.Check(fault)
	})
}

func show(out *result.Report, plays []*played, contestants []closedloop.Contestant) {
	f := field{plays, contestants}
	f.printAll(out, "Closed loop", served)
	f.printAll(out, "How the limit moved", moved)
	f.printBy(out, "event", func(p *played) string { return p.Event })
	f.printBy(out, "trace", func(p *played) string { return p.Trace })
	f.printLosses(out)
	printVerdicts(out, f.judge(advisorName))
}

func sizeOf(args []string) (z size, words []string, err error) {
	if len(args) == 0 {
		return sizes[0], nil, nil
	}
	i := slices.IndexFunc(sizes, func(z size) bool { return z.name == args[0] })
	if i < 0 {
		return size{}, nil, &service.ExitError{Status: 2,
			Err: fmt.Errorf("advisor needs quick or all, and words of scenarios' names; got %q", args)}
	}
	return sizes[i], args[1:], nil
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
