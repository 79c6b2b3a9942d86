// Package sidecar measures sidecars: whether they share a limit while some stop and
// others start, the effect on requests when their master fails, and their speed.
package sidecar

import (
	"weir/bench/lab/rig"
)

// A lab is one run of the experiment.
//
// Owned by one goroutine.
type lab struct{ *rig.Lab }

// Run runs the parts named by args, or all.
func Run(of *rig.Lab, args []string) {
	l := &lab{of}
	l.RunExperiment(rig.Experiment{Name: "sidecar",
		Good: "sidecars share the limit exactly, and no request fails or waits for long if their master fails.",
		Parts: []rig.Part{{Name: "share", Run: l.share}, {Name: "failures", Run: l.failures},
			{Name: "speed", Run: l.speed}}}, args)
}

func (l *lab) target() (addr string) {
	_, addr = l.Start("target", "EVENT_LOOPS=1")
	return addr
}

func (l *lab) master(env ...string) *rig.DecisionServer {
	return l.DecisionServer(append([]string{"EVENT_LOOPS=1"}, env...)...)
}

// settings returns those of a sidecar of the master at an address, in front of a target.
func (l *lab) settings(target, master string) []string {
	return []string{"TARGET_URL=http://" + target, "REMOTE_URL=http://" + master, "GATE=off", "EVENT_LOOPS=1"}
}
