// Package sidecar measures sidecars: whether they share a limit while some stop and
// others start, the effect on requests when their master fails, and their speed.
package sidecar

import (
	"context"
	"io"

	"weir/bench/lab/rig"
)

// A lab is one run of the experiment.
//
// Owned by one goroutine.
type lab struct{ rig.Lab }

// Run runs the parts named by args, or all. The error says which expectations were missed.
func Run(ctx context.Context, args []string, out io.Writer) error {
	l := &lab{rig.Lab{Out: out}}
	return l.Perform(ctx, rig.Experiment{Name: "sidecar",
		Good: "sidecars share the limit exactly, and no request fails or waits for long if their master fails.",
		Parts: []rig.Part{{Name: "share", Play: l.share}, {Name: "failures", Play: l.failures},
			{Name: "speed", Play: l.speed}}}, args)
}

func (l *lab) target() (addr string) {
	_, addr = l.Start("target", "EVENT_LOOPS=1")
	return addr
}

func (l *lab) master(env ...string) *rig.Master {
	return l.Master(append([]string{"EVENT_LOOPS=1"}, env...)...)
}

// sidecar starts a sidecar of the master at an address, in front of a target.
func (l *lab) sidecar(target, master string, env ...string) (*rig.Process, string) {
	return l.Start("proxy", append([]string{"TARGET_URL=http://" + target, "REMOTE_URL=http://" + master, "GATE=off",
		"EVENT_LOOPS=1"}, env...)...)
}
