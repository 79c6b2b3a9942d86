// Package sidecar measures sidecars: whether they share a limit while some end and others
// begin, what requests notice when their master fails, and how fast they are.
package sidecar

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"weir/bench/report"
	"weir/bench/rig"
	"weir/internal/service"
)

// Parts of the experiment.
var parts = []string{"share", "failures", "speed"}

// A lab is one run of the experiment.
//
// Owned by one goroutine.
type lab struct {
	out    io.Writer
	e      report.Expectations
	loads  []*rig.Loaded // all that were played
	ending []func()
	dir    string
}

// Run runs the parts that args name, all without a name. The error says what was not as it
// should be.
func Run(ctx context.Context, args []string, out io.Writer) (err error) {
	for _, arg := range args {
		if !slices.Contains(parts, arg) {
			return &service.ExitError{Status: 2, Err: fmt.Errorf("sidecar wants share, failures or speed, not %q", arg)}
		}
	}
	l := &lab{out: out}
	if l.dir, err = os.MkdirTemp("", "weir-sidecar-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(l.dir)) }()
	for i, part := range []func(context.Context) error{l.share, l.failures, l.speed} {
		if len(args) > 0 && !slices.Contains(args, parts[i]) {
			continue
		}
		err := part(ctx)
		l.end()
		if err != nil {
			return fmt.Errorf("%s: %w", parts[i], err)
		}
	}
	fmt.Fprintf(out, "\n%s", l.e.Table())
	return l.e.Conclude(out, "sidecars share the limit exactly, and no request fails or waits for long when their master does.", rig.Inconclusive(l.loads...))
}

// keep has a program end with the part.
func (l *lab) keep(p interface{ Kill() }) { l.ending = append(l.ending, p.Kill) }

// end ends the programs of a part.
func (l *lab) end() {
	for _, end := range slices.Backward(l.ending) {
		end()
	}
	l.ending = nil
}

// target starts a target, and returns its URL.
func (l *lab) target(ctx context.Context) (addr string, err error) {
	p, addr, err := rig.StartTargetAt(ctx, []string{"EVENT_LOOPS=1"})
	if err == nil {
		l.keep(p)
	}
	return addr, err
}

// master starts a master.
func (l *lab) master(ctx context.Context, env ...string) (*rig.Master, error) {
	m, err := rig.StartMaster(ctx, append([]string{"EVENT_LOOPS=1"}, env...)...)
	if err == nil {
		l.ending = append(l.ending, func() { m.Kill() }) // the one that runs then
	}
	return m, err
}

// sidecar starts one of the master at an address, in front of a target.
func (l *lab) sidecar(ctx context.Context, target, master string, env ...string) (*rig.Process, string, error) {
	p, addr, err := rig.StartProxy(ctx, append([]string{"TARGET_URL=http://" + target, "REMOTE_URL=http://" + master, "GATE=off", "EVENT_LOOPS=1"}, env...))
	if err == nil {
		l.keep(p)
	}
	return p, addr, err
}
