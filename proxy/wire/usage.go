package wire

import (
	"time"

	"weir/proxy/gate"
	"weir/proxy/traffic"
)

// spend adds up usage over the time since the target's numbers last changed, before they
// change. Within one turn of the loop no time passes.
func (t *target) spend(now time.Time) {
	us := t.side.front.micros(now)
	since := t.since.Load()
	if us == since {
		return
	}
	t.since.Store(us)
	if since == 0 || us < since { // new, or no time has passed
		return
	}
	t.side.counts.Traffic.Spent(uint64(us-since), t.used())
}

// used returns how much of the loop's part of the target is in use, by the numbers last
// published.
func (t *target) used() traffic.Use {
	u := traffic.Use{Taken: uint64(t.short.Load())}
	if !t.gated() {
		return u
	}
	limit := portion(t.gate.Limit(), len(t.side.front.sides), t.side.loop.Index())
	u.Taken += uint64(gate.StreamPlaces(t.Streams.Load(), int64(limit)))
	u.Places = uint64(limit)
	if t.enforced() && t.binds() && t.gate.Free() <= 0 {
		u.Bound = u.Places
	}
	return u
}

// Traffic returns the counts so far, including usage since the last change of each
// target's numbers.
func (f *Front) Traffic() *traffic.Sum {
	sum := new(traffic.Sum)
	for _, s := range f.sides {
		sum.Add(&s.counts.Traffic)
	}
	now := f.micros(time.Now())
	for _, spec := range f.Targets.All() {
		if f.Targets.Reachable(spec) {
			sum.Targets++
		}
		for t := range f.sides.of(spec) {
			if since := t.since.Load(); since != 0 && now > since {
				sum.Spent(uint64(now-since), t.used())
			}
		}
	}
	return sum
}
