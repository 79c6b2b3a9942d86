package deferred

import (
	"fmt"
	"time"

	"weir/bench/lab/result"
	"weir/bench/lab/rig"
)

const (
	connections = 64
	spell       = 2 * time.Second // of wrk, each
	rounds      = 20
	costMax     = 1.01
	plenty      = "limit: {algorithm: fixed, limit: 1000000000, window: 1}"
	script      = "wrk.method = %q\nwrk.body = string.rep(\"x\", 1024)\n"
)

// live compares the CPU time of requests under a rule with defer and under one without. Both are
// rules of one proxy, because two processes differ by more than the goal.
func (l *lab) live() {
	r := l.Rig(rig.Topology{Proxy: l.settings("live", plenty+", defer: {when: always}", plenty)})
	sides := result.Map([]string{"POST", "PUT"}, func(method string) rig.ComparedProgram {
		return rig.ComparedProgram{Name: method, Wrk: rig.Wrk{URL: r.URL(0), Script: fmt.Sprintf(script, method)},
			Process: r.Proxies[0]}
	})
	runs := l.Compare(sides, rounds, connections, spell)
	ratio := result.RatioOf(runs[0], runs[1], rig.CPUPerRequest)
	l.Heading("Live requests")
	l.Note("wrk sends 1 KiB, %d turns of %v. CPU time per request: %.2f µs under a rule without defer, %.2f µs under a "+
		"rule with defer and an empty queue. Ratio of the turns: %s",
		rounds, spell, result.MedianOf(runs[1], rig.CPUPerRequest), result.MedianOf(runs[0], rig.CPUPerRequest),
		ratio.Ratio(3))
	l.AtMost(l.where()+"live: CPU time per request with defer, relative to without", ratio.Median, costMax)
}
