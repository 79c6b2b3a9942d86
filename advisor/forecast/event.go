package forecast

import (
	"slices"
	"time"
	"weir/advisor/codec"
)

// An Event is an announced event that changes the rate. Its effect is learned from
// earlier events of the same name; a new name has no effect yet.
type Event struct {
	Name       string
	Start, End time.Time
	Ramp       time.Duration // it grows over Ramp before Start, and fades over Ramp after End
}

// EventNamesMax bounds the number of different names of events.
const EventNamesMax = 16

const (
	// eventPrior is the weight, in slots of five minutes, of the assumption that an event
	// has no effect; eventMost bounds the memory.
	eventPrior, eventMost = 6.0, 600.0
	eventNameBytes        = 256
)

// events are the announced events, by start, and the effects learned by name.
type events struct {
	spans []span
	named []effect // by name
}

// A span is an event in seconds: 1 from start to end, linear over ramp outside.
type span struct {
	name             int
	start, end, ramp float64
}

// An effect is how far z lies above the course during an event: a regression on the
// strength of the event.
type effect struct {
	name     string
	sum, all float64 // Σ v·excess and Σ v², by five minutes
}

// newEvents ignores names beyond EventNamesMax.
func newEvents(list []Event) (all events) {
	for _, e := range list {
		i := slices.IndexFunc(all.named, func(f effect) bool { return f.name == e.Name })
		if i < 0 {
			if len(all.named) == EventNamesMax {
				continue
			}
			i = len(all.named)
			all.named = append(all.named, effect{name: e.Name})
		}
		all.spans = append(all.spans, span{i, seconds(e.Start), seconds(e.End), e.Ramp.Seconds()})
	}
	return all
}

// at returns the strength of the event at t, 0 to 1.
func (s span) at(t float64) float64 {
	away := max(s.start-t, t-s.end)
	switch {
	case away <= 0:
		return 1
	case away >= s.ramp:
		return 0
	}
	return 1 - away/s.ramp
}

// learn updates with how far z was above the course around t, over dt seconds.
func (es *events) learn(t, dt, excess float64) {
	if excess != excess {
		return
	}
	for _, s := range es.spans {
		v, e := s.at(t), &es.named[s.name]
		e.sum += v * excess * dt / binWidth
		e.all += v * v * dt / binWidth
		if e.all > eventMost {
			e.sum, e.all = e.sum*eventMost/e.all, eventMost
		}
	}
}

// effect returns the effect of all events at t on z.
func (es *events) effect(t float64) (sum float64) {
	for _, s := range es.spans {
		if v := s.at(t); v > 0 {
			e := &es.named[s.name]
			sum += v * e.sum / (e.all + eventPrior)
		}
	}
	return sum
}

// walk identifies effects by name, since the settings may list other events by then.
func (es *events) walk(c *codec.Codec) {
	n := c.Len(len(es.named), EventNamesMax)
	for i := range n {
		var e effect
		if !c.Decoding {
			e = es.named[i]
		}
		c.Text(&e.name, eventNameBytes)
		c.Float(&e.sum, &e.all)
		if at := slices.IndexFunc(es.named, func(f effect) bool { return f.name == e.name }); c.Decoding && at >= 0 {
			es.named[at].sum, es.named[at].all = e.sum, e.all
		}
	}
}
