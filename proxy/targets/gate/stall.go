package gate

import (
	"math"
	"time"
)

const (
	// A request is long when it takes more than LongFactor times as long as usual.
	LongFactor = 10
	// A few long ones are usual. They matter when they hold more than 1/LongShareDivisor of the places.
	// For LongFor after that nothing is learned from them.
	LongShareDivisor, LongFor = 8, 3 * time.Second
	// While requests wait and nothing is answered for LongFactor times the usual time, and then for
	// twice as long each time, the limit rises to stallGrowth times itself, at most stallMost times.
	stallGrowth, stallMost = 1.5, 6
)

// stall is what is known of a time without answers.
type stall struct {
	rises int       // of the limit since the latest good answer
	from  float64   // the limit before
	at    time.Time // when it rose last
	ended time.Time // when it was clear that the target had stood still
}

// unstall ends a time without answers after which the limit has risen. If the first answer is a refusal or
// a timeout, the target has stood still: the limit is what it was, until there is a good answer.
func (g *Gate) unstall(now time.Time, a *Response) {
	s := &g.stall
	switch {
	case !a.Refused:
		if took := now.Sub(a.Sent) - a.Ago; a.Sent.After(s.at) &&
			took <= LongFactor*max(g.Usual(a.Class), WaitDefault/LongFactor) || now.Sub(s.at) >= LongFor {
			s.rises = 0
		}
	case s.ended.Before(a.Sent):
		s.rises, s.ended = stallMost, now
		g.set(s.from)
	}
}

// fails reports whether an answer is the end of a request that took long by itself and failed, such as
// one that is never answered: another that was sent long after it had a good answer before. Such a
// failure does not depend on how many requests are in flight.
func (g *Gate) fails(at, sent time.Duration, a *Response) bool {
	if a.Refused {
		usual := g.Usual(a.Class)
		return usual > 0 && g.newest-sent > LongFactor*max(usual, WaitDefault/LongFactor)
	}
	if sent > g.newest || g.newest > at { // the clock was set back
		g.newest = sent
	}
	return false
}

// Stalled reports whether the limit has risen because nothing was answered, and nothing good was since.
func (g *Gate) Stalled() bool { return g.stall.rises > 0 }

// Usual returns how long answers to requests of a class usually take at present; 0: unknown. Of a
// class that was not seen yet it is that of all.
func (g *Gate) Usual(class int) time.Duration {
	if s := g.scale[class]; s > 0 {
		return time.Duration(g.last / s)
	}
	return g.real(g.last)
}

// Long reports whether a request of a class that has taken so long, and was overtaken by many others,
// takes long by itself. A busy target may make any request take long.
func (g *Gate) Long(class int, took time.Duration) bool {
	usual := g.Usual(class)
	return usual > 0 && !g.starts && g.slowdown.n >= slowdownKnown && !g.Busy() && took > LongFactor*usual
}

// Waits tells the gate that a request of a class waits for a place. If nothing was answered for
// long, the places may be held by requests that take long by themselves, such as those that wait for
// an event, and a target that could serve others at once would be closed for as long as they take.
// If the target stands still instead, what is sent now waits there: therefore the limit rises by a
// little each time. It reports whether the limit has risen.
func (g *Gate) Waits(now time.Time, class int) bool {
	s := &g.slowdown
	if g.first || g.last == 0 {
		return false
	}
	if g.probe.limit > 0 && now.Sub(g.probe.last) > WaitDefault+probeLate*probeTakes(g.limit, g.real(g.last)) {
		g.dropProbe(now)
		return true
	}
	if g.stall.rises >= stallMost {
		return false
	}
	least := LongFactor * max(g.Usual(class), WaitDefault/LongFactor)
	if quiet := now.Sub(s.began) - s.last; quiet < least<<g.stall.rises {
		return false
	}
	before := g.places
	if g.stall.rises == 0 {
		g.stall.from = g.limit
	}
	g.stall.rises++
	g.stall.at = now
	g.set(math.Ceil(stallGrowth * g.limit))
	return g.places > before
}
