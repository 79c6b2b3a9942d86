// Package sidecar measures sidecars: whether they share a limit while some stop and
// others start, the effect on requests when their master fails, and their speed.
package sidecar

import (
	"context"
	"io"

	"weir/bench/rig"
)

// A lab is one run of the experiment.
//
// Owned by one goroutine.
type lab struct{ rig.Lab }

// Run runs the parts named by args, or all. The error says which expectations were missed.
func Run(ctx context.Context, args []string, out io.Writer) error {
	l := &lab{rig.Lab{Out: out}}
	parts, err := rig.Choose("sidecar", []rig.Part{{Name: "share", Play: l.share}, {Name: "failures", Play: l.failures}, {Name: "speed", Play: l.speed}}, args)
	if err != nil {
		return err
	}
	return l.Play(ctx, parts, "sidecars share the limit exactly, and no request fails or waits for long if their master fails.")
}

// target starts a target and returns its address.
func (l *lab) target(ctx context.Context) (addr string, err error) {
	_, addr, err = l.Kept(rig.StartTargetAt(ctx, []string{"EVENT_LOOPS=1"}))
	return addr, err
}

// master starts a master.
func (l *lab) master(ctx context.Context, env ...string) (*rig.Master, error) {
	return l.Master(ctx, append([]string{"EVENT_LOOPS=1"}, env...)...)
}

// sidecar starts a sidecar of the master at an address, in front of a target.
func (l *lab) sidecar(ctx context.Context, target, master string, env ...string) (*rig.Process, string, error) {
	return l.Kept(rig.StartProxy(ctx, append([]string{"TARGET_URL=http://" + target, "REMOTE_URL=http://" + master, "GATE=off", "EVENT_LOOPS=1"}, env...)))
}
