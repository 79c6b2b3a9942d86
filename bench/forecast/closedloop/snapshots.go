package closedloop

import (
	"math/rand/v2"
	"time"

	"weir/advisor/core"
	"weir/advisor/policy"
	"weir/proxy/limit"
	"weir/proxy/targets/gate"
)

const (
	jitter    = 0.1  // of the cycle, each way
	lostShare = 0.01 // of snapshots
)

// snapshots counts what the proxy reports.
type snapshots struct {
	at, last, due float64 // the next check, the last snapshot, and when the next is due
	draw          *rand.Rand
	cycle         float64
	start         time.Time

	offered, denied, answers, failed int
	latencies                        histogram
	used                             usage
}

func newSnapshots(s *Scenario) snapshots {
	n := snapshots{draw: newRand(s.Seed, streamSnapshots), cycle: s.SnapshotInterval.Seconds(), start: s.Demand.Start}
	n.begin(0, false)
	return n
}

func (n *snapshots) begin(now float64, gated bool) {
	n.offered, n.denied, n.answers, n.failed, n.latencies, n.used = 0, 0, 0, 0, histogram{}, usage{}
	n.last, n.due = now, now+n.cycle*(1+jitter*(2*n.draw.Float64()-1))
	n.look(now, gated)
}

func (n *snapshots) look(now float64, gated bool) {
	if n.at = n.due; gated {
		n.at = min(n.at, now+gate.ReportIntervalWhenFull.Seconds())
	}
}

func (n *snapshots) rejected() {
	n.offered++
	n.denied++
}

func (n *snapshots) admitted() { n.offered++ }

func (n *snapshots) answered(latency float64, fails bool) {
	n.answers++
	if fails {
		n.failed++
	}
	n.latencies.add(latency)
}

// take checks the gate. It returns the snapshot of the interval since the last one if that
// is due, and whether it reaches the advisor.
func (n *snapshots) take(r *run) (s Snapshot, arrives bool) {
	full := false
	if d := r.door; d != nil {
		u := d.take(n.at)
		full = u.bound >= gate.FullGatesShare*u.places && u.places > 0
		n.used.add(u)
	}
	if !full && n.at < n.due {
		n.look(n.at, true)
		return s, false
	}
	span := n.at - n.last
	s = Snapshot{Elapsed: n.at, Snapshot: core.Snapshot{
		At:       n.start.Add(time.Duration(n.at * float64(time.Second))).Truncate(time.Millisecond),
		Interval: time.Duration(span * float64(time.Second)).Round(time.Millisecond),
		Observed: float64(n.offered) / span, Forwarded: float64(n.offered-n.denied) / span,
		Rejected: float64(n.denied) / float64(max(1, n.offered)), Errors: float64(n.failed) / float64(max(1, n.answers)),
		P95: n.latencies.quantile(.95), Ended: float64(n.answers), Limit: limitOf(r.config)}}
	if u := &n.used; u.places > 0 {
		s.InFlight, s.GateLimit, s.GateShare = u.taken/span, u.places/span, u.bound/u.places
	}
	n.begin(n.at, r.door != nil)
	return s, n.draw.Float64() >= lostShare
}

// limitOf converts a configuration to the policy's form.
func limitOf(c limit.Config) policy.Limit {
	return policy.Limit{Algorithm: c.Algorithm.String(), Limit: float64(c.Limit), Window: c.Window,
		Capacity: float64(c.Capacity), FillRate: c.FillRate, Burst: float64(c.Burst)}
}
