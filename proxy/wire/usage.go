package wire

import (
	"time"

	"weir/proxy/gate"
	"weir/proxy/traffic"
)

// spend adds the time since the last change of the target's numbers, before they
// change. Within a turn of the loop it is no time.
func (t *target) spend(now time.Time) {
	us := t.side.front.steady(now).UnixMicro()
	since := t.since.Load()
	if us == since {
		return
	}
	t.since.Store(us)
	if since == 0 || us < since { // it is new, or no time has passed
		return
	}
	t.side.counts.Traffic.Spent(uint64(us-since), t.used())
}

// used is how much of the loop's part of the target is used, by the numbers that were
// published last.
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

// Traffic is what was counted so far, with what came of the time since a target's numbers
// changed last.
func (f *Front) Traffic() *traffic.Sum {
	sum := new(traffic.Sum)
	for _, s := range f.sides {
		sum.Add(&s.counts.Traffic)
	}
	now := f.steady(time.Now()).UnixMicro()
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
