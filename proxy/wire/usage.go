package wire

import (
	"time"

	"weir/internal/metric"
	"weir/proxy/gate"
	"weir/proxy/upstream"
)

// A usage is how much of the targets was used, added up over time in microseconds, so
// that whoever looks twice knows the means in between.
//
// Safe for concurrent use: its loop alone adds to it.
type usage struct {
	taken  metric.Counter // places: exchanges in flight, and a part of the streams and tunnels
	places metric.Counter // that the gates give
	bound  metric.Counter // … while all of a gate's are taken
}

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
	taken, places, bound := t.used()
	span, u := uint64(us-since), &t.side.counts.traffic.usage
	if taken > 0 {
		u.taken.Add(taken * span)
	}
	if places > 0 {
		u.places.Add(places * span)
	}
	if bound > 0 {
		u.bound.Add(bound * span)
	}
}

// used are the numbers of a usage as they were published last.
func (t *target) used() (taken, places, bound uint64) {
	streams, limit := t.streams.Load(), int64(t.view.limit.Load())
	taken, places = uint64(t.short.Load()+upstream.StreamPlaces(streams, limit)), uint64(limit)
	if taken >= places && limit < int64(t.side.connsPerTarget) && t.side.front.cfg.Gate.Mode == gate.On { // see binds
		bound = places
	}
	return taken, places, bound
}

// addUsage adds what the loops have added up, and what came of the time since.
func (f *Front) addUsage(sum *Traffic) {
	for _, s := range f.sides {
		u := &s.counts.traffic.usage
		sum.Taken += u.taken.Load()
		sum.Places += u.places.Load()
		sum.Bound += u.bound.Load()
	}
	now := f.steady(time.Now()).UnixMicro()
	for _, spec := range f.targetList() {
		if f.up(spec) {
			sum.Targets++
		}
		for t := range f.each(spec) {
			since := t.since.Load()
			if since == 0 || now <= since {
				continue
			}
			taken, places, bound := t.used()
			span := uint64(now - since)
			sum.Taken += taken * span
			sum.Places += places * span
			sum.Bound += bound * span
		}
	}
}
