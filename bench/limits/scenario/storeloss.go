package scenario

import (
	"fmt"
	"math"
	"time"

	"weir/bench/lab/rig"
)

const (
	sharedRate = 1500 // per second, for each of two proxies
	// latestMax bounds the time of the latest answer in seconds: the store's timeout plus delays
	// of a busy machine.
	latestMax = 0.5
)

// A script says when a store is killed and restarted, in seconds.
type script struct {
	store                rig.StoreKind
	total, kill, restart int
}

// StoreLoss plays the loss of a store for some seconds: two proxies share one limit, the store is
// killed after a third and restarted after two thirds of the time, under load, and counts of every
// second are printed.
func StoreLoss(store rig.StoreKind, seconds int) func(l *rig.Lab) {
	return script{store, seconds, (seconds + 1) / 3, 2 * seconds / 3}.play
}

func (s script) play(l *rig.Lab) {
	t := trial{rate: sharedRate, seconds: s.total,
		Topology: rig.Topology{Proxies: 2, Store: s.store, Proxy: []string{fmt.Sprintf("RATE_LIMIT_LIMIT=%d", limit),
			"GATE=off", "EVENT_LOOPS=1"}},
		events: []FaultEvent{{time.Duration(s.kill) * time.Second, killStore},
			{time.Duration(s.restart) * time.Second, restartStore}},
		show: func(sec *second) {
			l.Add("%d | %s | %d | %d | %s | %s", sec.n, s.at(sec.n), sec.admitted, sec.refused, sec.modes, sec.trouble)
		}}
	l.Note("Two proxies share a limit of %d/s in one %s, GATE=off; each is offered %d/s for %d s. It is "+
		"killed after %d s and restarted, with empty counters, after %d s.",
		limit, s.store, t.rate, s.total, s.kill, s.restart)
	l.Head("second", string(s.store), "admitted", "refused", "modes", "event")
	t.run(l).showLost(l, s)
}

// The store is up or down for a whole second.
const up, down = "up", "down"

// at describes the store in a second, as shown in the table.
func (s script) at(n int) string {
	switch {
	case n <= 2:
		return "up (load starts)"
	case n == s.kill+1 || n == s.restart+1 || n == s.restart+2: // restarted less than a second ago
		return "changing"
	case n > s.kill && n <= s.restart:
		return down
	}
	return up
}

func (o *outcome) showLost(lab *rig.Lab, s script) {
	var admitted, whole, failed uint64
	latest := 0.0
	for _, sec := range o.seconds {
		switch s.at(sec.n) {
		case up:
			admitted, whole = admitted+sec.admitted, whole+1
		case down:
			lab.Never(sec.refused > 0, "second %d: %d refused while %s was unavailable", sec.n, sec.refused, s.store)
		}
	}
	mean := float64(admitted) / float64(max(whole, 1))
	lab.Note("%s up, %d whole seconds: %.2f admitted per second by both together (limit %d, %+.2f %%)",
		s.store, whole, mean, limit, 100*(mean/limit-1))
	for i, l := range o.loads {
		failed += l.Errors
		latest = max(latest, l.LatencySuccess.Max, l.LatencyRateLimited.Max)
		lab.Note("proxy %d: %d sent, statuses %v, %d failed; admitted p50 %.2f p99 %.2f max %.1f ms; generator %s",
			i+1, l.Sent, l.StatusCodes, l.Errors, 1e3*l.LatencySuccess.P50, 1e3*l.LatencySuccess.P99,
			1e3*l.LatencySuccess.Max, l.Verdict)
	}
	lab.Never(math.Abs(mean/limit-1) > offMax, "%.1f admitted per second while %s was available; the limit is %d", mean,
		s.store, limit)
	lab.Never(failed > 0, "%d requests failed", failed)
	lab.Never(latest > latestMax, "the latest answer came after %.0f ms", 1e3*latest)
	lab.Conclude("exact while "+string(s.store)+
		" is available, nothing refused or failed while it is not, and limiting again within a second of its return.",
		rig.Inconclusive(o.loads...))
}
