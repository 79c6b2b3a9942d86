package closedloop

import (
	"math/rand/v2"
	"time"

	"weir/advisor/policy"
	"weir/proxy/limit"
)

const (
	jitter    = 0.1  // of the cycle, each way
	lostShare = 0.01 // of snapshots
	// boundCycle is the time between snapshots in seconds while the gate binds, which it
	// does when it has held requests back for a share of boundShare.
	boundCycle = 2.0
	boundShare = 0.1
)

// snapshots counts what the limiter tells.
type snapshots struct {
	at, last float64
	draw     *rand.Rand
	cycle    float64
	start    time.Time

	offered, denied, answers, failed int
	latencies                        histogram
}

func newSnapshots(s *Scenario) snapshots {
	n := snapshots{draw: newRand(s.Seed, streamSnapshots), cycle: s.Cycle.Seconds(), start: s.Demand.Start}
	n.at = n.span(n.cycle)
	return n
}

func (n *snapshots) span(cycle float64) float64 { return cycle * (1 + jitter*(2*n.draw.Float64()-1)) }

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

// take ends a span and tells about it, and whether the news arrives.
func (n *snapshots) take(r *run) (s Snapshot, arrives bool) {
	span := n.at - n.last
	s = Snapshot{Elapsed: n.at, Snapshot: policy.Snapshot{
		At:       n.start.Add(time.Duration(n.at * float64(time.Second))).Truncate(time.Millisecond),
		Interval: time.Duration(span * float64(time.Second)).Round(time.Millisecond),
		Observed: float64(n.offered) / span, Forwarded: float64(n.offered-n.denied) / span,
		RejectedShare: float64(n.denied) / float64(max(1, n.offered)), Errors: float64(n.failed) / float64(max(1, n.answers)),
		P95: time.Duration(n.latencies.quantile(.95) * float64(time.Second)), Ended: float64(n.answers), HealthyTargets: 1, Limit: told(r.config)}}
	if n.last < r.s.Away[1] && n.at > r.s.Away[0] {
		s.Mode = policy.FailOpen
	}
	cycle := n.cycle
	if r.door != nil {
		s.InFlight, s.GateLimit, s.GateShare = r.door.take(n.at, span)
		if s.GateShare >= boundShare {
			cycle = min(cycle, boundCycle)
		}
	}
	n.offered, n.denied, n.answers, n.failed, n.latencies = 0, 0, 0, 0, histogram{}
	n.last, n.at = n.at, n.at+n.span(cycle)
	return s, n.draw.Float64() >= lostShare
}

// told is a configuration as the policy reads it.
func told(c limit.Config) policy.Limit {
	return policy.Limit{Algorithm: c.Algorithm.String(), Limit: float64(c.Limit), Window: c.Window, Capacity: float64(c.Capacity), FillRate: c.FillRate, Burst: float64(c.Burst)}
}
