package wire

import (
	"time"

	"weir/proxy/targets/gate"
	"weir/proxy/wire/report"
)

// spend adds up usage over the time since the target's numbers last changed, before they
// change. Within one turn of the loop no time passes.
func (t *target) spend(now time.Time) {
	us := t.server.shared.micros(now)
	since := t.since.Load()
	if us == since {
		return
	}
	t.since.Store(us)
	if since == 0 || us < since { // new, or no time has passed
		return
	}
	limit := t.gate.Limit()
	if limit != t.partOf { // seldom: the division costs more than everything else here
		t.partOf, t.part = limit, t.portion(limit)
	}
	t.server.counts.Traffic.Spent(uint64(us-since), t.used(limit, t.part))
}

// portion returns the loop's part of a gate's limit.
func (t *target) portion(limit int) int {
	return portion(limit, len(t.server.shared.loops), t.server.loop.Index())
}

// used returns how much of the loop's part of the gate's limit is in use, by the numbers
// last published.
func (t *target) used(limit, part int) report.TargetUse {
	u := report.TargetUse{Taken: uint64(t.Short())}
	if limit == 0 {
		return u
	}
	u.Places = uint64(part)
	if shared := t.server.shared; limit < shared.connsPerTarget && shared.cfg.Gate.Mode == gate.On && t.gate.Free() <= 0 {
		u.Bound = u.Places
	}
	return u
}

// Traffic returns the counts so far, including usage since the last change of each
// target's numbers.
func (f *Server) Traffic() *report.TrafficTotals {
	sum := new(report.TrafficTotals)
	for _, s := range f.loops {
		sum.Add(&s.counts.Traffic)
	}
	now := f.micros(time.Now())
	for _, spec := range f.Targets.All() {
		if f.Targets.Reachable(spec) {
			sum.Targets++
		}
		for t := range f.loops.of(spec) {
			if since := t.since.Load(); since != 0 && now > since {
				limit := t.gate.Limit()
				sum.Spent(uint64(now-since), t.used(limit, t.portion(limit)))
			}
		}
	}
	return sum
}
