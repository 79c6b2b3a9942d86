package gate

import (
	"math"
	"time"
)

const (
	// A limit that does not bind is crowd times the most that was in flight, plus crowdMin,
	// so that a sudden crowd passes. It is also the queue of a target that suddenly becomes
	// slower, so it is little more than the target was seen to take: a larger crowd waits at
	// the proxy, in a queue that sheds nothing for a while, until the limit has grown.
	// The first limit follows from a few answers only, so it is crowdFirst times that number.
	crowd, crowdFirst, crowdMin = 1.2, 1.5, 4
	// crowdForget is how long it takes to forget a crowd: several times the pause between
	// crowds in usual traffic.
	crowdForget = time.Minute
	// queueSome is the share of waiting above which a limit that does not bind does not
	// rise. It falls if the queue lasts for queueStands. A well-used target has queues too, but
	// they pass. One that stands means that another proxy's gate binds, which otherwise would
	// have to give way alone.
	queueSome, queueStands = .12, 3 * time.Second
	// queueMuch is the share of waiting with which a limit that does not bind falls to the
	// number that is worked on, once the queue has lasted for queueLasts: then every proxy's
	// limit is too high.
	queueMuch, queueLasts = .5, time.Second
	// queueUnclear is the share of waiting up to which a short window counts.
	queueUnclear = .25
	// queueOver is the time over which the share of waiting is smoothed: a few windows.
	queueOver = 500 * time.Millisecond
)

// room has what is known about the time in which the gate did not bind.
type room struct {
	most    float64   // most in flight lately
	waiting float64   // share of the answer time, smoothed
	relief  time.Time // when there was last no queue
	open    bool      // the limit leaves room for a crowd
}

// crowded returns a limit that leaves room for a crowd if so many were in flight at most.
func crowded(most float64) float64 { return crowd*most + crowdMin }

// mostLately returns the most that was in flight lately, with those of a window.
func (g *Gate) mostLately(r *reading) float64 {
	most := g.room.most + (r.mean-g.room.most)*min(1, float64(r.span)/float64(crowdForget))
	return max(float64(g.window.peak), most)
}

// keep learns from a window in which the limit did not bind.
func (g *Gate) keep(now time.Time, r *reading) {
	g.note(r)
	g.starts = false
	g.room.most = g.mostLately(r)
	if g.room.waiting <= queueSome {
		g.learn(r)
	}
	if g.queued(now) > queueStands {
		g.atWork += .2 * (r.atWork - g.atWork)
	}
}

// reduceRoom lowers a limit that does not bind although most requests wait.
func (g *Gate) reduceRoom(now time.Time, r *reading) {
	g.keep(now, r)
	g.atWork += .2 * (r.atWork - g.atWork)
	g.room.most = r.mean
	g.fall(now, r.atWork+math.Sqrt(r.atWork), Latency)
}

// leaveRoom moves a limit that does not bind to one that leaves room for a crowd.
func (g *Gate) leaveRoom(now time.Time, r *reading) {
	g.keep(now, r)
	g.set(crowded(g.room.most))
	g.room.open, g.slowdown.from, g.saturation.most, g.before = true, 0, 0, cut{}
}

// giveWay lowers a limit that does not bind half of the way to what is in flight.
func (g *Gate) giveWay(now time.Time, r *reading) {
	g.keep(now, r)
	g.set(g.limit + (1.1*r.mean+1-g.limit)/2)
	if g.queued(now) > queueStands {
		g.room.most = r.mean
	}
}

// queued returns how long there may have been a queue.
func (g *Gate) queued(now time.Time) time.Duration {
	if g.slowdown.idle() {
		return 0
	}
	return now.Sub(g.room.relief)
}

// note updates the share of waiting.
func (m *room) note(now time.Time, r *reading) {
	m.waiting += (r.waiting - m.waiting) * min(1, float64(r.span)/float64(queueOver))
	if m.waiting <= queueSome || now.Before(m.relief) {
		m.relief = now
	}
}
