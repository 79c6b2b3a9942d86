package session

import (
	"math"
	"time"
)

const (
	guess = time.Millisecond // the assumed service time
	// spare is the reserve in standard deviations of the number of requests in flight: with four,
	// one request in 30,000 finds all connections busy (Halfin and Whitt, 1981).
	spare    = 4
	startMin = 2 // connections to start with, at least

	// growthStep is the mean interval at which the number of connections may grow beyond its
	// peak, so that a stalled target does not get thousands of new ones at once; growthBurst may
	// be opened together. Closed connections are replaced at once. Without keep-alive every
	// request needs a connection, and this bound does not apply.
	growthStep  = time.Millisecond
	growthBurst = 64

	// Bounds of the delay after a failed dial, which doubles each time.
	backoffMin = time.Millisecond
	backoffMax = 100 * time.Millisecond
)

// A PoolSize bounds the connections of a loop.
type PoolSize struct {
	Start int  // opened before the first request is due
	Max   int  // at most; at least 1
	Dials int  // dials in progress at most; at least 1
	Grow  bool // connections are kept alive, so the rate of growth is bounded
}

// Connections returns how many connections to start with for rate requests per second to an
// unknown target: the mean number in flight at a service time of a millisecond, plus four times the
// square root of that.
func Connections(rate float64) int {
	a := rate * guess.Seconds()
	return max(startMin, int(math.Ceil(a+spare*math.Sqrt(a))))
}

// A Pool counts the connections of one loop and decides when to open more: when requests wait
// because all connections are busy, up to a bound.
//
// Owned by its loop.
type Pool struct {
	size    PoolSize
	open    int // that are not leaving
	dialing int
	leaving int // that get no more requests, and whose place others may take

	peak    int       // of open and dialing
	grown   time.Time // when the dials started so far would be due at one per growthStep
	backoff time.Duration
	notYet  time.Time // the earliest next dial
}

// NewPool returns a Pool without connections.
func NewPool(size PoolSize) Pool { return Pool{size: size} }

// Open returns the number of open connections, without those that are leaving.
func (p *Pool) Open() int { return p.open }

// Full reports whether no more connections can be dialled before one is closed.
func (p *Pool) Full() bool { return p.open+p.dialing >= p.size.Max }

// Dialing returns the number of dials in progress.
func (p *Pool) Dialing() uint64 { return uint64(p.dialing) }

// Lost reports whether there is no connection and no dial in progress.
func (p *Pool) Lost() bool { return p.open == 0 && p.dialing == 0 }

// Begin returns how many connections to dial at the start, and counts them as dials in progress.
func (p *Pool) Begin() int {
	p.dialing = min(p.size.Start, p.size.Max)
	p.peak = p.dialing
	return p.dialing
}

// Dial returns how many connections to dial now for the waiting requests, and counts them as dials
// in progress.
func (p *Pool) Dial(now time.Time, waiting uint64) int {
	if now.Before(p.notYet) {
		return 0
	}
	allowed := min(p.size.Max-p.open, p.size.Dials) - p.dialing
	n := int(min(waiting, math.MaxInt32)) - p.dialing
	n = max(0, min(n, allowed))
	if p.size.Grow {
		replaced := min(n, p.peak-p.open-p.dialing)
		n = replaced + p.grow(now, n-replaced)
	}
	p.dialing += n
	p.peak = max(p.peak, p.open+p.dialing)
	return n
}

// Replace reports whether to dial a connection in place of an idle one that was closed, and counts
// it as a dial in progress. That is so while there are fewer connections than at the start.
func (p *Pool) Replace(now time.Time) bool {
	if now.Before(p.notYet) || p.open+p.dialing >= min(p.size.Start, p.size.Max) || p.dialing >= p.size.Dials {
		return false
	}
	p.dialing++
	return true
}

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

// Closed handles the end of an open connection that is not leaving.
func (p *Pool) Closed() { p.open-- }

// Leaving handles that an open connection gets no more requests, and reports whether it is leaving now: another may
// be opened in its place before it is closed. As many may be leaving as may be open; beyond, it keeps its place.
func (p *Pool) Leaving() bool {
	if p.leaving >= p.size.Max {
		return false
	}
	p.open--
	p.leaving++
	return true
}

// Left handles the end of a connection that is leaving.
func (p *Pool) Left() { p.leaving-- }
