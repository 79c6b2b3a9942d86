package gate

import (
	"cmp"
	"math"
	"time"
)

// LatencyClasses is how many classes of requests a gate distinguishes by how long they take.
const LatencyClasses = 16

// A Config has the bounds of the limit, and the answer time that clients expect.
type Config struct {
	Min   int           // ≥ 1; 0: 2
	Max   int           // ≥ Min; 0: no bound
	First int           // while nothing is known of the target; 0: Max
	SLO   time.Duration // 95th percentile of answer times that clients expect; 0: unknown
}

const (
	// settleMax bounds how long answers are ignored after the limit has risen.
	settleMax = 10 * time.Second
	// settleTimes is for how many median answer times after a fall of the limit answers are
	// ignored whose requests were sent with more in flight than the new limit.
	settleTimes = 4
	// The target stood still if nothing was answered for stillTimes times the median answer time,
	// and for stillLeast, although a request was under way.
	stillTimes, stillLeast = 10, 50 * time.Millisecond
	// seenMost is the number of answers of a class at which the numbers of all are halved, so that
	// the usual class is that of the latest traffic.
	seenMost = 1 << 16
)

// A Gate bounds what is in flight to one target.
//
// Owned by the goroutine that holds the lock of its target; see package gates.
type Gate struct {
	cfg    Config
	brisk  time.Duration // see brisk
	limit  float64
	places int     // limit as a whole number, whose average is the limit
	rest   float64 // remainder of the rounding
	first  bool    // nothing is known yet: the limit is cfg.First or cfg.Max
	starts bool    // since then there has been no sign of a queue, and the limit has always bound

	scale [LatencyClasses]float64 // the usual class's answer time ÷ the class's; 0: unknown
	seen  [LatencyClasses]int
	usual int     // the class with clearly the most answers, whose scale is 1
	unit  float64 // real answer times ÷ those on its scale, in the last window

	window   window
	last     float64    // median of the previous window
	baseline baseline   // how answer times are spread when nothing waits
	slower   float64    // answer times without waiting ÷ those of the baseline
	rates    [4]float64 // good answers per second in the last windows
	turn     int

	atWork     float64   // how many of those in flight were worked on while the gate bound, smoothed
	bound      time.Time // since when the gate has bound
	room       room
	slowdown   slowdown
	probe      probe
	saturation saturation
	stall      stall
	newest     time.Duration // when the newest request with a good answer was sent, see slowdown.time
	before     cut           // where the limit fell from, for answer times that hardly vary
	refused    refusals
	state      State
}

// A State is what a gate knows about its target, for display.
type State struct {
	Limit    int
	Baseline time.Duration // median answer time without waiting, as it is now
	Median   time.Duration // of the last window
	Waiting  float64       // share of the answer time that is waiting in the target, even if too short to count
	Down     bool          // the target refuses nearly everything
	Cuts     [Reasons]uint64
	Last     []Decrease // the last cutsKept, oldest first; shared, not to be changed
}

// cutsKept is how many cuts are kept.
const cutsKept = 8

// A Decrease is a fall of the limit.
type Decrease struct {
	At       time.Time     `json:"at"`
	From     int           `json:"from"`
	To       int           `json:"to"`
	Why      Reason        `json:"why"`
	Median   time.Duration `json:"median"`
	Baseline time.Duration `json:"baseline"`
}

// A Reason says why a limit fell.
type Reason uint8

const (
	Latency Reason = iota // requests wait in the target
	Errors                // the target refuses requests
	Reasons = iota
)

// MarshalText returns the word that String returns.
func (r Reason) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// String returns the word used in metrics.
func (r Reason) String() string { return [...]string{"latency", "errors"}[r] }

// New returns a gate that knows nothing about its target yet.
func New(cfg Config) *Gate {
	if cfg.Min <= 0 {
		cfg.Min = 2
	}
	if cfg.Max <= 0 {
		cfg.Max = math.MaxInt32
	}
	cfg.Max = max(cfg.Max, cfg.Min)
	g := &Gate{cfg: cfg, brisk: brisk, first: true, unit: 1, slower: 1, probe: probe{period: probeMin},
		refused: refusals{ceiling: float64(cfg.Max)}, newest: longAgo}
	if cfg.SLO > 0 {
		g.brisk = min(brisk, cfg.SLO/2)
	}
	g.window = window{since: longAgo, sent: longAgo, until: longAgo, next: firstMin, few: firstFew, least: buckets - 1}
	g.set(float64(cmp.Or(cfg.First, cfg.Max)))
	return g
}

// Bound changes the upper bound of the limit. What was learned stays.
func (g *Gate) Bound(most int) {
	most = max(most, g.cfg.Min)
	if most == g.cfg.Max {
		return
	}
	if g.refused.from == 0 {
		g.refused.ceiling = float64(most)
	}
	g.cfg.Max = most
	if g.first {
		g.set(float64(cmp.Or(g.cfg.First, most)))
		return
	}
	g.set(g.limit)
}

// Limit returns how many requests may be at the target.
func (g *Gate) Limit() int { return g.places }

// Busy reports whether requests wait in the target for others to be served.
func (g *Gate) Busy() bool { return g.room.waiting > queueSome }

// Down reports whether the target refuses nearly everything.
func (g *Gate) Down() bool { return g.state.Down || g.refused.row >= downRow }

// State returns what the gate knows.
func (g *Gate) State() State {
	l := g.state
	l.Limit = g.Limit()
	return l
}

// A Response describes the first byte of a target's answer, or a missing answer.
type Response struct {
	Sent     time.Time     // when the request was sent, all of it
	Ago      time.Duration // since the answer began
	Class    int           // of requests that take about equally long; below LatencyClasses
	Refused  bool          // 429, 502, 503, 504, a timeout or a broken connection
	Full     bool          // the gate bound when it was sent: it had waited, or the next one had to
	InFlight int           // at the target when it was sent, itself included
	Crowded  bool          // no place is free when it is recorded, but its own
	Alone    bool          // no other request has a place then, streams apart
}

// Answered records an answer, when it comes or later. It reports whether the limit, or the facts that
// the metrics show, may have changed. Streamed uploads and tunnels must not be recorded, since their
// duration depends on the client.
func (g *Gate) Answered(now time.Time, a *Response) bool {
	w, at, took := &g.window, g.slowdown.time(now), now.Sub(a.Sent)
	sent := at - took
	if took -= a.Ago; took < 0 || g.fails(at, sent, a) {
		return false
	}
	g.stoodStill(now, at, sent, a)
	if g.stall.rises > 0 {
		g.unstall(now, a)
	}
	g.refused.count(a)
	if g.slows(now, at, a) {
		return true
	}
	if g.refused.from > 0 {
		g.follow(now, a)
	}
	if w.since == longAgo {
		w.since, w.until = sent, sent+firstMax
	}
	span := at - w.since
	if span < a.Ago {
		g.setBack(now, at)
		return false
	}
	if g.first {
		w.peak = max(w.peak, a.InFlight)
	}
	if w.stale(at, sent, a) || a.Refused && g.ignores(now, at, a) {
		return false
	}
	if w.settle > 0 { // the first to be answered are the fast ones
		w.since, w.settle = sent+w.settle, 0
		if span = at - w.since; span < a.Ago {
			return false
		}
	}
	w.peak = max(w.peak, a.InFlight)
	w.n++
	w.inFlight += a.InFlight
	if a.Full {
		w.full++
	}
	if a.Refused {
		w.refused += a.InFlight
	} else {
		ns := float64(max(took, time.Microsecond))
		w.add(g.scaled(a.Class, ns), ns)
	}
	if w.n < w.next || g.early(span) {
		return false
	}
	w.next = w.n * 5 / 4
	before := g.places
	if !g.judge(now, span) {
		return false
	}
	g.settle(at, g.places < before)
	return true
}

// settle begins a new window once the new limit is in effect, which may have fallen.
func (g *Gate) settle(at time.Duration, fallen bool) {
	w, takes := &g.window, min(g.real(g.last), settleMax)
	if !fallen {
		w.reset(at + takes)
		return
	}
	w.reset(at)
	w.few, w.until = int(math.Ceil(g.limit)), at+settleTimes*takes
	w.settle = min(takes, g.real(2*g.slower*g.baseline.mid))
}

// setBack is called for an answer from before the window. If now is long before it as well,
// the clock was set back.
func (g *Gate) setBack(now time.Time, at time.Duration) {
	if g.window.since-at <= settleMax {
		return
	}
	g.restart(now, at)
	g.refused.ignoredUntil = now
}

// stoodStill is told of an answer, which may be the first after a time without any, though requests were
// under way: the target stood still. How long those took says nothing of what it can do now, so
// good answers to what was sent before do not count. After a long time without answers the clock may
// have been set forward instead, and everything begins anew.
func (g *Gate) stoodStill(now time.Time, at, sent time.Duration, a *Response) {
	s, usual := &g.slowdown, g.real(g.last)
	gap := at - a.Ago - s.last
	if usual == 0 || gap <= max(stillTimes*usual, stillLeast) || sent >= s.last {
		return
	}
	if gap > settleMax {
		g.restart(now, at)
	}
	g.window.sent, g.window.few, g.window.until = at, math.MaxInt, at+settleMax
	if !a.Refused || gap > settleMax {
		s.since = s.n
	}
}

// restart begins a new window, and counts all other spans from now on.
func (g *Gate) restart(now time.Time, at time.Duration) {
	g.window.reset(at)
	g.bound, g.room.relief, g.probe.last, g.refused.tried, g.refused.lowered = now, now, now, now, now
}

// early reports whether the window is too short to be judged.
func (g *Gate) early(span time.Duration) bool {
	w := &g.window
	switch {
	case g.first:
		if w.goods < firstMin {
			return w.n-w.goods < windowMin
		}
		if w.takes == 0 {
			w.takes = min(time.Duration(firstTimes*w.took)/time.Duration(w.goods), 2*settleMax)
		}
		return w.takes > firstMax && span < w.takes
	case span < spanShort:
		return true
	case g.probe.limit > 0:
		return w.goods < probeAnswers && w.goods > w.n/2 || span < g.real(g.slower*g.baseline.mid)
	}
	return span < spanMin
}

// scaled converts an answer time to what a request of the usual class would have taken. It
// learns how long the answer's own class takes: the scale follows the medians in small steps.
func (g *Gate) scaled(class int, ns float64) float64 {
	if g.seen[class]++; g.seen[class] >= seenMost {
		for i := range g.seen {
			g.seen[i] /= 2
		}
	}
	if g.seen[class] > 2*g.seen[g.usual] { // with a margin, or two equally frequent classes would take turns
		g.change(class)
	}
	s := &g.scale[class]
	switch {
	case class == g.usual:
		*s = 1
		return ns
	case g.last == 0: // there is nothing to compare with yet
		return ns
	case *s == 0:
		*s = g.last / ns
	default:
		step := 1 + max(.002, 1/float64(g.seen[class]))
		if ns**s > g.last {
			*s /= step
		} else {
			*s *= step
		}
	}
	return ns * *s
}

// real converts from the scale of the usual class to what answers take at present.
func (g *Gate) real(ns float64) time.Duration { return time.Duration(ns * g.unit) }

// change makes class the usual one, and converts everything that was learned to its scale.
func (g *Gate) change(class int) {
	by := g.scale[class]
	g.usual = class
	if by == 0 || by == 1 {
		return
	}
	for i := range g.scale {
		g.scale[i] /= by
	}
	g.unit *= by
	g.last /= by
	g.before.mid /= by
	g.baseline.low /= by
	g.baseline.mid /= by
	g.baseline.high /= by
	g.baseline.mean /= by
}

// set moves the limit. The places alternate between the whole numbers around it. Otherwise
// limits of 5.0 and 5.9 would be the same, and gates that share a target could not converge.
// At the ceiling they do not alternate, since the target would refuse the request in the one
// place too many again and again.
func (g *Gate) set(n float64) {
	g.limit = max(float64(g.cfg.Min), min(n, float64(g.cfg.Max), g.refused.ceiling))
	if g.limit == g.refused.ceiling {
		g.rest = 0
	}
	g.places = min(int(g.limit+g.rest), g.cfg.Max)
	g.rest += g.limit - float64(g.places)
}
