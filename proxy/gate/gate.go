package gate

import (
	"math"
	"time"
)

// Classes is how many classes of requests a gate knows apart by how long they take.
const Classes = 16

// A Config says within which bounds the limit moves, and which answers are fast enough.
type Config struct {
	Min int           // ≥ 1; 0: 2
	Max int           // ≥ Min; 0: no bound
	SLO time.Duration // 95th percentile of answer times that clients expect; 0: unknown
}

const (
	// settleMax bounds how long answers are ignored after the limit has risen.
	settleMax = 10 * time.Second
	// settleTimes is how many medians long answers to requests are ignored that were
	// sent before as few were in flight as the fallen limit allows.
	settleTimes = 4
)

// A Gate bounds what is in flight to one target.
//
// Owned by who holds the lock of its target: see package gates.
type Gate struct {
	cfg    Config
	brisk  time.Duration // see brisk
	limit  float64
	places int     // limit as a whole number; on average it is the limit
	rest   float64 // what rounding has left over
	first  bool    // nothing is known yet: there is no limit

	scale [Classes]float64 // the usual class's answer time ÷ the class's; 0: unknown
	seen  [Classes]int
	usual int // the class with the most answers, whose scale is 1

	window window
	last   float64    // median of the window before
	calm   calm       // how answer times are spread when nothing waits
	slower float64    // times as long as when calm answers take now, without waiting
	rates  [4]float64 // good answers per second in the windows before
	turn   int

	atWork float64   // of those in flight while the gate bound, smoothed
	bound  time.Time // since when the gate has bound
	room   room
	probe  probe

	before  cut // where the limit fell from, of answer times that hardly vary
	refused refusals
	look    Look
}

// A cut is where the limit was before it fell.
type cut struct{ limit, mid float64 }

// A Look is what a gate knows of its target, for people.
type Look struct {
	Limit    int
	Baseline time.Duration // median answer time without waiting, as it is now
	Median   time.Duration // of the last window
	Waiting  float64       // the share of the answer time that is waiting in the target, also where it does not count
	Down     bool          // the target refuses nearly everything
	Cuts     [Reasons]uint64
	Last     []Cut // the last cutsKept, oldest first; shared, not to be changed
}

// cutsKept is how many cuts are remembered for people.
const cutsKept = 8

// A Cut is a fall of the limit.
type Cut struct {
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

// MarshalText is String.
func (r Reason) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// String is the word used in metrics.
func (r Reason) String() string { return [...]string{"latency", "errors"}[r] }

// New returns the gate of a target of which nothing is known.
func New(cfg Config) *Gate {
	if cfg.Min <= 0 {
		cfg.Min = 2
	}
	if cfg.Max <= 0 {
		cfg.Max = math.MaxInt32
	}
	cfg.Max = max(cfg.Max, cfg.Min)
	g := &Gate{cfg: cfg, brisk: brisk, first: true, slower: 1, refused: refusals{ceiling: float64(cfg.Max)}}
	if cfg.SLO > 0 {
		g.brisk = min(brisk, cfg.SLO/2)
	}
	g.window = window{next: firstMin, few: firstFew, least: buckets - 1}
	g.set(float64(cfg.Max))
	return g
}

// Limit is how many requests may be at the target.
func (g *Gate) Limit() int { return g.places }

// Look returns what the gate knows.
func (g *Gate) Look() Look {
	l := g.look
	l.Limit = g.Limit()
	return l
}

// An Answer is the first byte of a target's answer, or that there is none.
type Answer struct {
	Sent     time.Time // when the request was sent, all of it
	At       time.Time // when the answer began; zero: now
	Class    int       // of requests that take about as long, below Classes
	Refused  bool      // 429, 502, 503, 504, a time-out or a broken connection
	Full     bool      // when it was sent the gate bound: it had waited, or the next had to
	InFlight int       // at the target when it was sent, itself included
}

// began is when the answer began.
func (a *Answer) began(now time.Time) time.Time {
	if a.At.IsZero() {
		return now
	}
	return a.At
}

// Answered records an answer, now or later than it came, and reports whether it has judged the answers
// since the last time: then the limit and the Look may be others. Uploads, streams and
// tunnels, whose time is their client's, are not recorded.
func (g *Gate) Answered(now time.Time, a *Answer) bool {
	w := &g.window
	at := a.began(now)
	took := at.Sub(a.Sent)
	if took < 0 {
		return false
	}
	if g.refused.from > 0 {
		g.follow(now, a)
	}
	if w.since.IsZero() {
		w.since, w.until = a.Sent, a.Sent.Add(firstMax)
	}
	if at.Before(w.since) {
		g.setBack(now)
		return false
	}
	if g.first {
		w.peak = max(w.peak, a.InFlight)
	}
	if w.stale(at, a) || g.ignores(now, at, a) {
		return false
	}
	if w.settle > 0 { // the first to be answered are the fast ones
		w.since = a.Sent.Add(w.settle)
		w.settle = 0
		if at.Before(w.since) {
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
		w.add(g.scaled(a.Class, float64(max(took, time.Microsecond))))
	}
	if w.n < w.next {
		return false
	}
	span := now.Sub(w.since)
	if g.early(span) {
		return false
	}
	w.next = w.n * 5 / 4
	before := g.places
	if !g.judge(now, span) {
		return false
	}
	g.settle(now, g.places < before)
	return true
}

// settle begins a new window, once the limit is in effect that has fallen or not.
func (g *Gate) settle(now time.Time, fallen bool) {
	w, takes := &g.window, min(time.Duration(g.last), settleMax)
	if !fallen {
		w.reset(now.Add(takes))
		return
	}
	w.reset(now)
	w.few, w.until = int(math.Ceil(g.limit)), now.Add(settleTimes*takes)
	w.settle = min(takes, time.Duration(2*g.slower*g.calm.mid))
}

// setBack is called when there is an answer from before the window. If now is long before it, too,
// the clock was set back.
func (g *Gate) setBack(now time.Time) {
	if g.window.since.Sub(now) <= settleMax {
		return
	}
	g.window.reset(now)
	g.bound, g.room.relief, g.probe.last = now, now, now
	g.refused.ignoredUntil, g.refused.lowered = now, now
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
			w.takes = min(time.Duration(firstTimes*w.sum)/time.Duration(w.goods), 2*settleMax)
		}
		return w.takes > firstMax && span < w.takes
	case span < spanShort:
		return true
	case g.probe.limit > 0:
		return w.goods < probeAnswers && w.goods > w.n/2 || span < time.Duration(g.slower*g.calm.mid)
	}
	return span < spanMin
}

// scaled returns an answer time as if it were one of the usual class, and learns how
// long its own class takes: the scale follows the medians in small steps.
func (g *Gate) scaled(class int, ns float64) float64 {
	g.seen[class]++
	if g.seen[class] > g.seen[g.usual] {
		g.change(class)
	}
	s := &g.scale[class]
	switch {
	case class == g.usual:
		*s = 1
	case *s == 0 && g.last > 0:
		*s = g.last / ns
	case *s == 0:
		*s = 1
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

// change makes class the usual one: everything that was learned is converted to its terms.
func (g *Gate) change(class int) {
	by := g.scale[class]
	g.usual = class
	if by == 0 || by == 1 {
		return
	}
	for i := range g.scale {
		g.scale[i] /= by
	}
	g.last /= by
	g.before.mid /= by
	g.calm.low /= by
	g.calm.mid /= by
	g.calm.high /= by
	g.calm.mean /= by
}

// set moves the limit. The places alternate between the whole numbers around it: else
// limits of 5.0 and 5.9 would be the same, and gates that share a target could not come
// closer to each other. At the ceiling they do not: one place too many there is one that the
// target refuses again and again.
func (g *Gate) set(n float64) {
	g.limit = max(float64(g.cfg.Min), min(n, float64(g.cfg.Max), g.refused.ceiling))
	if g.limit == g.refused.ceiling {
		g.rest = 0
	}
	g.places = min(int(g.limit+g.rest), g.cfg.Max)
	g.rest += g.limit - float64(g.places)
}
