package roster

import (
	"strconv"
	"time"

	"weir/proxy/upstream"
)

// A targetState is how a target is over all loops: as well as the best one finds
// it, and down when it cannot be reached.
type targetState struct {
	status   upstream.Status
	cause    string // why it is not up; empty: it is
	failures int64  // connects and answers that have failed so far
	failed   string // why the last of them did; empty: none has
}

// state is what the log, health, readiness and /config/targets say of a target.
func (l *List) state(spec *Target) targetState {
	st := targetState{status: upstream.Draining}
	connected, failed := false, false
	var last time.Time
	for t := range l.cfg.Loops.Views(spec) {
		st.status = min(st.status, upstream.Status(t.Status.Load()))
		connected = connected || t.Idle.Load()+t.Busy.Load() > 0
		failed = failed || t.Failed.Load()
		st.failures += t.failures.Load()
		if c := t.cause.Load(); c != nil && c.at.After(last) {
			last, st.failed = c.at, c.text
		}
	}
	st.cause = st.failed
	verdict, cause := l.checks.verdict(spec)
	switch {
	case verdict == upstream.CheckedDown:
		st.status, st.cause = upstream.Down, cause
	case failed && !connected:
		st.status = upstream.Down
	case st.status == upstream.Up:
		st.cause = ""
	}
	return st
}

// Reachable reports whether a target is thought to be: active checks do not deny it, and
// a loop has a connection to it, or none has failed to get one.
func (l *List) Reachable(spec *Target) bool { return l.state(spec).status != upstream.Down }

// Up returns whether each target can be reached, by its address, or by its
// number unless Config.Named. It is for health and readiness: requests try
// the last target whatever this says.
func (l *List) Up() map[string]bool {
	specs := l.All()
	up := make(map[string]bool, len(specs))
	for _, spec := range specs {
		name := spec.Addr
		if !l.cfg.Named {
			name = strconv.Itoa(l.Number(spec))
		}
		up[name] = l.Reachable(spec)
	}
	return up
}

// A Status is how one target is, over all loops.
type Status struct {
	Number      int    `json:"number"` // by which metrics and health tell it when everybody may read them
	URL         string `json:"url"`
	Address     string `json:"address"`         // connected to; of a name that was not found yet the name
	Status      string `json:"status"`          // up, probing, ejected, down; draining when the list has changed
	Cause       string `json:"cause,omitempty"` // why it is not up
	InFlight    int64  `json:"inFlight"`
	Connections struct {
		Idle       int64 `json:"idle"`
		Busy       int64 `json:"busy"`
		Connecting int64 `json:"connecting"`
	} `json:"connections"`
	Ejections uint64 `json:"ejections"`
	Check     string `json:"check"` // of active checks: unknown, up, down
}

// Status returns how the targets are. Readiness and health call those down that are down
// here.
func (l *List) Status() []Status {
	l.cfg.Loops.Refresh()
	specs := l.All()
	list := make([]Status, 0, len(specs))
	for _, spec := range specs {
		state := l.state(spec)
		verdict, _ := l.checks.verdict(spec)
		st := Status{Number: l.Number(spec), URL: spec.URL, Address: spec.Addr, Check: verdict.String(), Status: state.status.String(), Cause: state.cause}
		for t := range l.cfg.Loops.Views(spec) {
			st.InFlight += t.InFlight.Load()
			st.Connections.Idle += t.Idle.Load()
			st.Connections.Busy += t.Busy.Load()
			st.Connections.Connecting += t.Connecting.Load()
			st.Ejections += uint64(t.Ejections.Load())
		}
		list = append(list, st)
	}
	return list
}
