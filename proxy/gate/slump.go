package gate

import (
	"math"
	"time"
)

const (
	// A target has slumped if its latest slumpAnswers answers took slumpTimes as long to come as
	// so many usually do. Times between answers vary by chance, so fewer would not do; a loss of
	// less is noticed in time by what answers take.
	slumpAnswers, slumpTimes = 40, 1.6
	// slumpLatest is how many answers tell how far the rate has fallen: most of the others may have
	// come before.
	slumpLatest = 12
	// slumpKnown is how many answers must have come to know what is usual.
	slumpKnown = 256
	// slumpPart is the part of the limit to which it falls at most, and slumpProven the part of the
	// number that was worked on lately to which it falls at least.
	slumpPart, slumpProven = .5, .9
	// slumpDrains is how many times as long as the target needs for what is in flight the answers
	// to that do not count.
	slumpDrains = 3
	// slumpUsual is the time over which the usual rate of answers is smoothed.
	slumpUsual = time.Second
)

// slump notices that a target has become much slower before any answer shows how slow it is.
// What is in flight to it reaches the limit that a crowd would not reach, while answers come
// clearly more rarely than before. Of a crowd as many answers come as before, or more.
type slump struct {
	at    [slumpAnswers]int64 // ring of when the latest answers came, in ns
	n     int                 // answers ever
	usual float64             // answers per second
	from  float64             // limit before the fall, until it is known whether it helped; 0: there was none
}

// rate returns how many answers per second the latest n are.
func (s *slump) rate(n int) float64 {
	last, first := s.at[(s.n-1)%slumpAnswers], s.at[(s.n-n)%slumpAnswers]
	return float64(n-1) * float64(time.Second) / float64(last-first)
}

// slumps records when an answer came, and lets a limit fall that does not bind if the target has
// slumped: to about the number that it worked on. So it is soon done with what it has, and what
// comes meanwhile waits at the proxy.
func (g *Gate) slumps(now time.Time, a *Answer) {
	s := &g.slump
	s.at[s.n%slumpAnswers] = now.UnixNano() - int64(a.Ago)
	s.n++
	if !a.Crowded || a.Refused || !g.room.open || g.probe.limit > 0 || s.n < slumpKnown || g.last < 2*float64(g.brisk) {
		return
	}
	if rate := s.rate(slumpAnswers); rate <= 0 || slumpTimes*rate > s.usual { // negative: the clock was set back
		return
	}
	rate := s.rate(slumpLatest)
	if rate <= 0 {
		return
	}
	s.from, g.room.open, g.bound = g.limit, false, now
	drains := min(slumpDrains*g.limit/rate, settleMax.Seconds())
	worked := max(g.atWork, slumpProven*g.worked())
	g.fall(now, min(g.limit, max(worked+math.Sqrt(worked), min(slumpPart, rate/s.usual)*g.limit)), Latency)
	g.settle(now, true)
	g.window.sent, g.window.until = now, now.Add(time.Duration(drains*float64(time.Second)))
}
