package gate

import (
	"math"
	"time"
)

const (
	// A target has slumped if its latest slowdownAnswers answers took slowdownTimes as long as that many
	// usually take. Times between answers vary by chance, so fewer would not do; a smaller loss is
	// noticed in time by what answers take.
	slowdownAnswers, slowdownTimes = 40, 1.6
	// slowdownLatest is how many answers tell how far the rate has fallen: most of the others may have
	// come before.
	slowdownLatest = 12
	// slowdownKnown is how many answers must have come to know what is usual.
	slowdownKnown = 256
	// The limit falls to the number w that was at work lately plus its square root, or to the part
	// of the limit that the rate has fallen to, at most slowdownPart, if that is more. Of the number
	// that was at work when answers came fastest, w is at least slowdownProven.
	slowdownPart, slowdownProven = .5, .9
	// Answers to requests sent before the fall are ignored for slowdownDrains times as long as the
	// target needs for what is in flight.
	slowdownDrains = 3
	// slowdownUsual is the time over which the usual rate of answers is smoothed.
	slowdownUsual = time.Second
)

// slowdown notices that a target has become much slower before any answer shows how slow it is.
// What is in flight to it reaches the limit, which leaves room for a crowd, while answers come
// clearly more rarely than before. When a crowd comes to a target that works as before, as many
// answers come as before, or more.
type slowdown struct {
	began time.Time
	at    [slowdownAnswers]time.Duration // ring of when the latest answers came, since began
	last  time.Duration                  // when the latest one came
	n     int                            // answers ever
	since int                            // value of n when the target last had nothing to do
	usual float64                        // answers per second
	from  float64                        // limit before the fall, until it is known whether it helped; 0: there was none
}

// note records when an answer began to come. The time of one whose end came much later does not
// precede that of an answer recorded before it: then it would look as if no others had come in
// between.
func (s *slowdown) note(now time.Duration, a *Response) {
	came, last, idle := now-a.Ago, s.last, s.idle()
	at := came
	if last <= now { // otherwise the clock was set back
		at = max(at, last)
	}
	s.at[s.n%slowdownAnswers], s.last = at, at
	s.n++
	if a.Alone && !a.Refused || idle && came <= last { // what came before the idle time does not end it
		s.since = s.n
	}
}

// longAgo is an instant before all others.
const longAgo = time.Duration(math.MinInt64 / 2)

// time returns the time since the first answer: an instant that is cheaper to keep and to compare than a
// time.Time.
func (s *slowdown) time(now time.Time) time.Duration {
	if s.n == 0 {
		s.began = now
	}
	return now.Sub(s.began)
}

// idle reports whether no request had a place at the target after the latest answer.
func (s *slowdown) idle() bool { return s.n > 0 && s.since == s.n }

// rate returns how many answers per second the latest n are. It is negative if the clock was set
// back among them.
func (s *slowdown) rate(n int) float64 {
	last, first := s.at[(s.n-1)%slowdownAnswers], s.at[(s.n-n)%slowdownAnswers]
	return float64(n-1) / (last - first).Seconds()
}

// slowed reports whether the target has slowed. If so, answers per second tell how far.
func (s *slowdown) slowed() (rate float64, ok bool) {
	if s.n < slowdownKnown || s.n-s.since < slowdownAnswers {
		return 0, false
	}
	if rate := s.rate(slowdownAnswers); rate <= 0 || slowdownTimes*rate > s.usual {
		return 0, false
	}
	rate = s.rate(slowdownLatest)
	return rate, rate > 0
}

// slows records when an answer came, and lets a limit fall that does not bind if the target has
// slumped: to about the number that it worked on. So it is soon done with what it has, and what
// comes meanwhile waits at the proxy. It reports whether the limit fell.
func (g *Gate) slows(now time.Time, at time.Duration, a *Response) bool {
	s := &g.slowdown
	if s.idle() && a.Sent.After(g.room.relief) {
		g.room.relief = a.Sent // a target with nothing to do has no queue, unless of another proxy
	}
	s.note(at, a)
	if !a.Crowded || a.Refused || !g.room.open || g.probe.limit > 0 || g.real(g.last) < 2*g.brisk {
		return false
	}
	rate, ok := s.slowed()
	if !ok {
		return false
	}
	s.from, g.room.open, g.bound, g.before = g.limit, false, now, cut{}
	drains := min(slowdownDrains*g.limit/rate, settleMax.Seconds())
	worked := max(g.atWork, slowdownProven*g.worked())
	g.fall(now, min(g.limit, max(worked+math.Sqrt(worked), min(slowdownPart, rate/s.usual)*g.limit)), Latency)
	g.settle(at, true)
	g.window.sent, g.window.until = at, at+time.Duration(drains*float64(time.Second))
	return true
}
