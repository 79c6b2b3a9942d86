package session

import (
	"math"
	"time"
)

const (
	// guess is the service time that is assumed before anything was measured.
	guess = time.Millisecond
	// spare is how many standard deviations of the number of requests in
	// flight are provided for: with four, one request in 30,000 finds all
	// connections busy (Halfin and Whitt, 1981).
	spare = 4
	// startMin is the least number of connections to start with.
	startMin = 2

	// growthStep is the time between two connections more than there were ever
	// before, in the long run, so that a target that stalls is not met by
	// thousands of new ones at once; growthBurst may come together. What was
	// closed is replaced at once. Without keep-alive every request needs its
	// own connection and there is no such bound.
	growthStep  = time.Millisecond
	growthBurst = 64

	// After a failed dial the next one waits, twice as long after each.
	backoffMin = time.Millisecond
	backoffMax = 100 * time.Millisecond
)

// A Size says how many connections a loop may have.
type Size struct {
	Start int  // opened before the first request is due
	Max   int  // at most; at least 1
	Dials int  // under way at a time; at least 1
	Grow  bool // connections are kept, so growth is bounded in rate
}

// Connections returns how many connections to start with for rate requests per
// second when the target is not known yet: what is in flight on average when it
// takes a millisecond, and four times the square root of that.
func Connections(rate float64) int {
	a := rate * guess.Seconds()
	return max(startMin, int(math.Ceil(a+spare*math.Sqrt(a))))
}

// A Pool counts the connections of one loop and decides when to open more: as
// soon as requests wait because all are busy, up to a bound.
//
// Owned by its loop.
type Pool struct {
	size    Size
	open    int
	dialing int

	peak int // of open and dialing
	// grown is when the dials begun so far would have been used up at an even
	// pace of one per growthStep.
	grown   time.Time
	backoff time.Duration
	notYet  time.Time // no dial before
}

// NewPool returns a Pool without connections.
func NewPool(size Size) Pool { return Pool{size: size} }

// Open is the number of open connections.
func (p *Pool) Open() int { return p.open }

// Full says that no more connections will be dialled before one is closed.
func (p *Pool) Full() bool { return p.open+p.dialing >= p.size.Max }

// Dialing is the number of connections on their way.
func (p *Pool) Dialing() uint64 { return uint64(p.dialing) }

// Lost says that there is no connection, and none on its way.
func (p *Pool) Lost() bool { return p.open == 0 && p.dialing == 0 }

// Begin returns how many connections to dial at the start, and counts them as
// on their way.
func (p *Pool) Begin() int {
	p.dialing = min(p.size.Start, p.size.Max)
	p.peak = p.dialing
	return p.dialing
}

// Dial returns how many connections to dial now that so many requests wait for
// one, and counts them as on their way.
func (p *Pool) Dial(now time.Time, waiting uint64) int {
	if now.Before(p.notYet) {
		return 0
	}
	room := min(p.size.Max-p.open, p.size.Dials) - p.dialing
	n := int(min(waiting, math.MaxInt32)) - p.dialing
	n = max(0, min(n, room))
	if p.size.Grow {
		replaced := min(n, p.peak-p.open-p.dialing)
		n = replaced + p.grow(now, n-replaced)
	}
	p.dialing += n
	p.peak = max(p.peak, p.open+p.dialing)
	return n
}

// Replace reports whether a connection that was closed while it was idle is to
// be dialled again, and counts it as on its way: while there are fewer than at
// the start.
func (p *Pool) Replace(now time.Time) bool {
	if now.Before(p.notYet) || p.open+p.dialing >= min(p.size.Start, p.size.Max) || p.dialing >= p.size.Dials {
		return false
	}
	p.dialing++
	return true
}

// grow returns how many of n dials are allowed now.
func (p *Pool) grow(now time.Time, n int) int {
	if p.grown.Before(now) {
		p.grown = now
	}
	ahead := int((p.grown.Sub(now) + growthStep - 1) / growthStep)
	n = max(0, min(n, growthBurst-ahead))
	p.grown = p.grown.Add(time.Duration(n) * growthStep)
	return n
}

// Opened handles a dial that succeeded.
func (p *Pool) Opened() {
	p.dialing--
	p.open++
	p.backoff = 0
}

// Failed handles a dial that failed.
func (p *Pool) Failed(now time.Time) {
	p.dialing--
	p.backoff = min(max(2*p.backoff, backoffMin), backoffMax)
	p.notYet = now.Add(p.backoff)
}

// Closed handles the end of an open connection.
func (p *Pool) Closed() { p.open-- }
