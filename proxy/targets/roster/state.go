package roster

import (
	"strconv"
	"time"

	"weir/proxy/targets/upstream"
)

// A targetState is the state of a target over all loops: the best that a loop reports, or
// down if it cannot be reached.
type targetState struct {
	status   upstream.Status
	cause    string // why it is not up; empty if it is
	failures int64  // failed connects and answers so far
	failed   string // why the last of them failed; empty: none
}

// state returns what the log, health, readiness and /config/targets report about a
// target.
func (l *List) state(spec *Target) targetState {
	st := targetState{status: upstream.Draining}
	connected, failed := false, false
	var last time.Time
	for t := range l.cfg.Loops.Views(spec) {
		st.status = min(st.status, upstream.Status(t.Status.Load()))
		connected = connected || t.Usable.Load() > 0
		failed = failed || t.Failed.Load()
		st.failures += t.failures.Load()
		if c := t.cause.Load(); c != nil && c.at.After(last) {
			last, st.failed = c.at, c.text
		}
	}
	st.cause = st.failed
	checkResult, cause := l.verdict(spec)
	switch {
	case checkResult == upstream.CheckedDown:
		st.status, st.cause = upstream.Down, cause
	case failed && !connected:
		st.status = upstream.Down
	case st.status == upstream.Up:
		st.cause = ""
	}
	return st
}

// Reachable reports whether a target can probably be reached: active checks do not deny
// it, and a loop has a connection to it, or no loop has failed to connect.
func (l *List) Reachable(spec *Target) bool { return l.state(spec).status != upstream.Down }

// Up returns whether each target can be reached, by address, or by number unless
// Config.Named. It is for health and readiness; requests may try the last target
// regardless.
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

// A Status is the status of one target over all loops.
type Status struct {
	Number      int    `json:"number"` // names it in metrics and health if access to these is open
	URL         string `json:"url"`
	Address     string `json:"address"`         // that is connected to; the name until it is resolved
	Status      string `json:"status"`          // up, probing, ejected, down; draining after leaving the list
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

// Status returns the status of all targets. Those that are down here are also down in
// readiness and health.
func (l *List) Status() []Status {
	l.cfg.Loops.Refresh()
	specs := l.All()
	list := make([]Status, 0, len(specs))
	for _, spec := range specs {
		state := l.state(spec)
		checkResult, _ := l.verdict(spec)
		st := Status{Number: l.Number(spec), URL: spec.URL, Address: spec.Addr, Check: checkResult.String(),
			Status: state.status.String(), Cause: state.cause}
		for t := range l.cfg.Loops.Views(spec) {
			st.InFlight += t.InFlight()
			st.Connections.Idle += t.Idle()
			st.Connections.Busy += t.Busy.Load()
			st.Connections.Connecting += t.Connecting.Load()
			st.Ejections += uint64(t.Ejections.Load())
		}
		list = append(list, st)
	}
	return list
}
