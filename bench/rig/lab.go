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

// A Lab is one run of an experiment that has parts: where it prints, what it has found, and
// what the part under way has started.
//
// Owned by one goroutine.
type Lab struct {
	report.Expectations
	Out   io.Writer
	Dir   string    // for files of the experiment; Play makes and removes it
	Loads []*Loaded // all that were played

	ends []func()
}

// A Part is one of an experiment's. Its context ends with it.
type Part struct {
	Name string
	Play func(ctx context.Context) error
}

// Choose returns the parts that args name, in the order of all; without a name all of them.
// The error is that of wrong usage.
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

// Play plays parts one after the other and judges what was expected; good says that all is
// well. The error says what was not as it should be.
func (l *Lab) Play(ctx context.Context, parts []Part, good string) (err error) {
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
	fmt.Fprintf(l.Out, "\n%s", l.Table())
	return l.Conclude(l.Out, good, Inconclusive(l.Loads...))
}

// Keep has end called by the next End, which is that of the part under way at the latest.
func (l *Lab) Keep(end func()) { l.ends = append(l.ends, end) }

// End ends what was kept, the last first.
func (l *Lab) End() {
	for _, end := range slices.Backward(l.ends) {
		end()
	}
	l.ends = nil
}

// Redis starts a Redis for the part under way.
func (l *Lab) Redis(ctx context.Context) (*Redis, error) {
	r, err := StartRedis(ctx)
	if err == nil {
		l.Keep(r.End)
	}
	return r, err
}
