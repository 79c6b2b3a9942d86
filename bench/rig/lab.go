package rig

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"weir/bench/report"
	"weir/internal/service"
)

// A Lab is one run of an experiment that has parts: its output, its expectations, and what
// the current part must clean up.
//
// Owned by one goroutine.
type Lab struct {
	report.Expectations
	Out   io.Writer
	Dir   string    // for files of the experiment; Each creates and removes it
	Loads []*Loaded // whose verdicts decide whether the run is conclusive

	ends []func()
}

// A Part is a part of an experiment. Its context ends with it.
type Part struct {
	Name string
	Play func(ctx context.Context) error
}

// Choose returns the parts named by args in the order of all, or all parts if args is empty.
// Unknown names are a usage error.
func Choose(experiment string, all []Part, args []string) (chosen []Part, err error) {
	var known []string
	for _, p := range all {
		known = append(known, p.Name)
		if len(args) == 0 || slices.Contains(args, p.Name) {
			chosen = append(chosen, p)
		}
	}
	for _, arg := range args {
		if !slices.Contains(known, arg) {
			return nil, &service.ExitError{Status: 2, Err: fmt.Errorf("%s wants any of %s, not %q", experiment, strings.Join(known, ", "), arg)}
		}
	}
	return chosen, nil
}

// Play runs parts with Each and judges the expectations; good is the conclusion if all are
// met. The error says which were not.
func (l *Lab) Play(ctx context.Context, parts []Part, good string) error {
	if err := l.Each(ctx, parts); err != nil {
		return err
	}
	fmt.Fprintf(l.Out, "\n%s", l.Table())
	return l.Conclude(l.Out, good, Inconclusive(l.Loads...))
}

// Each runs parts one after the other.
func (l *Lab) Each(ctx context.Context, parts []Part) (err error) {
	if l.Dir, err = os.MkdirTemp("", "weir-bench-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(l.Dir)) }()
	for _, p := range parts {
		ctx, cancel := context.WithCancel(ctx)
		err := p.Play(ctx)
		cancel()
		l.End()
		if err != nil {
			return fmt.Errorf("%s: %w", p.Name, err)
		}
	}
	return nil
}

// Keep registers end to be called by the next End, at the latest when the current part ends.
func (l *Lab) Keep(end func()) { l.ends = append(l.ends, end) }

// End calls the functions registered with Keep, the last one first.
func (l *Lab) End() {
	for _, end := range slices.Backward(l.ends) {
		end()
	}
	l.ends = nil
}

// Kept registers a program to be killed like with Keep, unless it could not be started.
func (l *Lab) Kept(p *Process, addr string, err error) (*Process, string, error) {
	if err == nil {
		l.Keep(p.Kill)
	}
	return p, addr, err
}

// Master starts a master that ends with the current part, also if it was restarted.
func (l *Lab) Master(ctx context.Context, env ...string) (*Master, error) {
	m, err := StartMaster(ctx, env...)
	if err == nil {
		l.Keep(func() { m.Kill() }) // the process that runs then
	}
	return m, err
}

// Redis starts a Redis that ends with the current part.
func (l *Lab) Redis(ctx context.Context) (*Redis, error) {
	r, err := StartRedis(ctx)
	if err == nil {
		l.Keep(r.End)
	}
	return r, err
}
