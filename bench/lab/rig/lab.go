package rig

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"weir/bench/lab/result"
	"weir/internal/program/service"
	"weir/internal/test/freeport"
)

// A Lab is one run of an experiment, which is a function of a Lab and its arguments: its report,
// its expectations, and what the current part must clean up. Its methods end the part if they
// fail, like those of a testing.T. A failing experiment ends the current Catch.
//
// Owned by one goroutine.
type Lab struct {
	result.Expectations
	*result.Report
	Ctx   context.Context // of the current part; ends with it
	Dir   string          // for files of the current part, with which it is removed
	Loads []*LoadResult   // whose verdicts decide whether the run is conclusive

	ends []func() error
}

// A Part is a part of an experiment.
type Part struct {
	Name string
	Run  func()
}

// An Experiment is an experiment that has parts.
type Experiment struct {
	Name  string
	Good  string // the conclusion if all expectations are met
	Parts []Part
}

// RunExperiment plays the parts of an experiment that args name, or all of them, and judges the
// expectations. Unknown names are a usage error.
func (l *Lab) RunExperiment(e Experiment, args []string) {
	l.RunParts(Choose(e.Name, e.Parts, args))
	l.Table(l.Figures())
	l.Conclude(e.Good, Inconclusive(l.Loads...))
}

// Conclude reports the conclusion: passed if all expectations are met. Otherwise it ends the current
// Catch with what was missed, or with doubt, unless that is nil.
func (l *Lab) Conclude(passed string, doubt error) {
	Check(l.Expectations.Conclude(l.Report, passed, doubt))
}

// Choose returns the parts named by args in the order of all, or all parts if args is empty.
// Unknown names are a usage error.
func Choose(experiment string, all []Part, args []string) []Part {
	known := result.Map(all, func(p Part) string { return p.Name })
	for _, arg := range args {
		if !slices.Contains(known, arg) {
			UsageError("%s takes any of %s, not %q", experiment, strings.Join(known, ", "), arg)
		}
	}
	if len(args) == 0 {
		return all
	}
	return slices.DeleteFunc(slices.Clone(all), func(p Part) bool { return !slices.Contains(args, p.Name) })
}

// A NumberArg is an optional numeric argument of an experiment.
type NumberArg struct {
	What               string
	Usual, Least, Most int
}

// Read returns the number in args, or Usual if args is empty. Other arguments are a usage
// error.
func (n NumberArg) Read(args []string) int {
	if len(args) == 0 {
		return n.Usual
	}
	v, err := strconv.Atoi(args[0])
	if len(args) > 1 || err != nil || v < n.Least || v > n.Most {
		UsageError("%s %q: allowed: a whole number from %d to %d", n.What, strings.Join(args, " "), n.Least, n.Most)
	}
	return v
}

// UsageError ends the current Catch with a usage error.
func UsageError(format string, args ...any) {
	Check(&service.ExitError{Status: 2, Err: fmt.Errorf(format, args...)})
}

// RunParts plays parts one after the other. The first that fails is the last.
func (l *Lab) RunParts(parts []Part) {
	for _, p := range parts {
		Section(p.Name, func() { Check(l.Run(l.Ctx, p.Run)) })
	}
}

// Run plays a part, or a part of the current one, and cleans up after it.
func (l *Lab) Run(ctx context.Context, fn func()) (err error) {
	outerCtx, outerDir, outerEnds := l.Ctx, l.Dir, l.ends
	defer func() { l.Ctx, l.Dir, l.ends = outerCtx, outerDir, outerEnds }()
	l.ends = nil
	if l.Dir, err = os.MkdirTemp("", "weir-bench-"); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	l.Ctx = ctx
	err = Catch(fn)
	cancel()
	return errors.Join(err, Catch(l.End), os.RemoveAll(l.Dir))
}

// Cleanup registers end to be called by the next End, at the latest when the current part ends.
func (l *Lab) Cleanup(end func()) { l.keep(func() error { end(); return nil }) }

// keep is Cleanup for a function that may fail. End then ends the current Catch.
func (l *Lab) keep(end func() error) { l.ends = append(l.ends, end) }

// End calls what was registered, the last first.
func (l *Lab) End() {
	var err error
	for _, end := range slices.Backward(l.ends) {
		err = errors.Join(err, end())
	}
	l.ends = nil
	Check(err)
}

// Start starts one of our programs at a free address and waits until it answers. It ends with the
// current part.
func (l *Lab) Start(name string, env ...string) (*Process, string) {
	addr := Must(freeport.Addr())
	return l.StartAt(name, addr, env...), addr
}

// StartAt is Start at an address. The program may be stopped or killed before the part ends.
func (l *Lab) StartAt(name, addr string, env ...string) *Process {
	p := Launch(name, addr, 0, env)
	l.keep(p.Stop)
	Check(p.AwaitPort(l.Ctx, addr))
	return p
}

// StartForeign starts a third-party program, which ends with the current part, and waits until it
// listens on addr.
func (l *Lab) StartForeign(name, addr string, command ...string) *Process {
	p := Must(Start(name, nil, command...))
	p.Foreign = true
	l.keep(p.Stop)
	Check(p.AwaitPort(l.Ctx, addr))
	return p
}

// Redis starts a Redis that ends with the current part. If it has crashed, the part fails.
func (l *Lab) Redis() *Redis {
	r := new(Redis)
	r.start(l)
	return r
}

// Postgres starts a PostgreSQL with settings of the form NAME=value that ends with the current part.
// If it has crashed, the part fails.
func (l *Lab) Postgres(settings ...string) *Postgres {
	p := &Postgres{settings: settings}
	p.start(l)
	return p
}

// Rules writes a file of rules for the current part and returns the setting of a proxy with them.
func (l *Lab) Rules(text string) (setting string) {
	file := Must(os.CreateTemp(l.Dir, "rules-*.yaml"))
	_, err := file.WriteString(text)
	Check(errors.Join(err, file.Close()))
	return "RULES_FILE=" + file.Name()
}

// Wait waits for an instant.
func (l *Lab) Wait(until time.Time) { Check(Wait(l.Ctx, time.Until(until))) }

// late is when in each second of the clock Seconds reads: by then a fixed window has admitted
// everything that it will.
const late = 850 * time.Millisecond

// Seconds calls read late in each of the next n seconds of the clock, which count from 1. Windows end
// with the second, so what read changes happens before the next window.
func (l *Lab) Seconds(n int, read func(n int)) {
	for first, i := time.Now().Truncate(time.Second).Add(late), 1; i <= n; i++ {
		l.Wait(first.Add(time.Duration(i) * time.Second))
		read(i)
	}
}

// Scrape reads the metrics of the program at addr.
func (l *Lab) Scrape(addr string) Metrics { return Must(Scrape(l.Ctx, addr)) }
