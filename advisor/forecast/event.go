package forecast

import (
	"slices"
	"time"
	"weir/advisor/codec"
)

// An Event is something announced that moves the rate. What it does is learnt by its
// name from earlier events of that name; a new name does nothing.
type Event struct {
	Name       string
	Start, End time.Time
	Ramp       time.Duration // it grows over Ramp before Start, and fades over Ramp after End
}

// EventNamesMax is how many different names of events are learnt.
const EventNamesMax = 16

const (
	// eventPrior is for how long, in slots of five minutes, an event is taken to do
	// nothing before the first is seen; eventMost bounds how many are remembered.
	eventPrior, eventMost = 6.0, 600.0
	eventNameBytes        = 256
)

// events are what is announced, by start, and what each name was found to do.
type events struct {
	spans []span
	named []effect // by name
}

// A span is an event in seconds: 1 from start to end, linear over ramp outside.
type span struct {
	name             int
	start, end, ramp float64
}

// An effect is by how much z lies above the course while an event lasts: a
// regression on how much of the event there is.
type effect struct {
	name     string
	sum, all float64 // Σ v·excess and Σ v², by five minutes
}

// newEvents leaves out names beyond EventNamesMax.
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

// at is how much of the event there is, 0 to 1.
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

// learn takes in by how much z lay above the course around t, over dt seconds.
func (l *events) learn(t, dt, excess float64) {
	if excess != excess {
		return
	}
	for _, s := range l.spans {
		v, e := s.at(t), &l.named[s.name]
		e.sum += v * excess * dt / binWidth
		e.all += v * v * dt / binWidth
		if e.all > eventMost {
			e.sum, e.all = e.sum*eventMost/e.all, eventMost
		}
	}
}

// effect is what all events at t do to z.
func (l *events) effect(t float64) (sum float64) {
	for _, s := range l.spans {
		if v := s.at(t); v > 0 {
			e := &l.named[s.name]
			sum += v * e.sum / (e.all + eventPrior)
		}
	}
	return sum
}

// walk keeps what is known of names by the name: the settings may have others by then.
func (l *events) walk(c *codec.Codec) {
	n := c.Count(len(l.named), EventNamesMax)
	for i := range n {
		var e effect
		if !c.Reading {
			e = l.named[i]
		}
		c.Text(&e.name, eventNameBytes)
		c.Float(&e.sum, &e.all)
		if at := slices.IndexFunc(l.named, func(f effect) bool { return f.name == e.name }); c.Reading && at >= 0 {
			l.named[at].sum, l.named[at].all = e.sum, e.all
		}
	}
}
