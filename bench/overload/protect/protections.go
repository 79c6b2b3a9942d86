package protect

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"

	"weir/bench/lab/rig"
	"weir/internal/test/freeport"
)

// A Protection is a program in front of the target.
type Protection struct {
	Name, About string
	env         []string // settings of our proxy; nil for a peer
	advisor     bool
}

// The limit that an operator would set after a load test, and the capacity in the advisor's
// settings.
const (
	limitRate     = 1400
	limitBurst    = 280
	capacityKnown = 1500
)

// protections returns all sides in the order of tables.
func protections() []Protection {
	limit := []string{"RATE_LIMIT_ALGORITHM=token", fmt.Sprintf("RATE_LIMIT_FILL_RATE=%d", limitRate),
		fmt.Sprintf("RATE_LIMIT_CAPACITY=%d", limitBurst)}
	none, gated := []string{"RATE_LIMIT_ALGORITHM=off"}, []string{"GATE=on"}
	off := []string{"GATE=off"}
	return []Protection{
		{Name: "none", About: "Weir without a limit, GATE=off", env: slices.Concat(none, off)},
		{Name: "limit", About: fmt.Sprintf("Weir, token %d/s, GATE=off", limitRate), env: slices.Concat(limit, off)},
		{Name: "gate", About: "Weir, GATE=on, no other settings", env: slices.Concat(none, gated)},
		{Name: "limit-gate", About: fmt.Sprintf("Weir, token %d/s and GATE=on", limitRate), env: slices.Concat(limit, gated)},
		{Name: "advisor", About: fmt.Sprintf(
			"Weir, token %d/s, GATE=on and the advisor with a capacity of %d/s and an SLO of 50 ms, asked every 5 s",
			limitRate, capacityKnown), env: slices.Concat(limit, gated), advisor: true},
		{Name: "haproxy", About: "HAProxy, nbthread 1, timeout queue a fifth of the time that counts as in time, maxconn " +
			"the number of workers, and two thirds more if the target has a queue"},
		{Name: "failsafe",
			About: "failsafe-go 0.9.6, adaptive limiter with its defaults (no queue) in a reverse proxy of net/http"},
	}
}

// sideNamed returns the side of that name, which must exist.
func sideNamed(name string) Protection {
	list := protections()
	return list[slices.IndexFunc(list, func(s Protection) bool { return s.Name == name })]
}

// missing returns why a side cannot be played here, or nil. It builds the peer that is a program
// of this repository into dir.
func missing(ctx context.Context, side, dir string) error {
	switch side {
	case "haproxy":
		return rig.RequireInstalled("haproxy")
	case "failsafe":
		return rig.BuildPeer(ctx, filepath.Join(dir, "failsafe"), "bench/overload/protect/failsafe", ".")
	}
	return nil
}

// haproxyConfig has the settings with the best results in the scenario half, varied one at a
// time. With two threads HAProxy uses twice the CPU time here.
const haproxyConfig = `
global
  nbthread 1
  maxconn 8000
defaults
  mode http
  timeout connect 5s
  timeout client 1m
  timeout server 1m
  timeout queue %[3]dms
  option http-keep-alive
  http-reuse always
frontend front
  bind %[2]s
  default_backend target
backend target
  server target %[4]s maxconn %[5]d
`

// maxconn returns how many requests HAProxy may have in flight to the target: more than there are
// workers, because a worker would otherwise be idle until its answer was read and the next request
// has arrived. Without a queue it is the number of workers, because the target refuses more, and
// these refusals would use up the requests waiting in HAProxy.
func (s *Scenario) maxconn() int {
	most := s.Workers
	if s.Queue > 0 {
		most = most * 5 / 3
	}
	return (most + s.Proxies - 1) / s.Proxies
}

// front starts one proxy of a side in front of the target.
func (st *stage) front() (addr string) {
	switch {
	case st.side.env != nil:
		_, addr = st.Start("proxy", append([]string{"TARGET_URL=http://" + st.target}, st.env...)...)
	case st.side.Name == "haproxy":
		_, addr = st.StartPeer(rig.HAProxy(haproxyConfig), (st.s.InTime / 5).Milliseconds(), st.target, st.s.maxconn())
	default:
		addr = rig.Must(freeport.Addr())
		st.StartForeign("failsafe", addr, filepath.Join(st.tools, "failsafe"), addr, st.target)
	}
	return addr
}
