package gate

import (
	"math"
	"time"
)

const (
	// crowd is how many times what is in flight a limit is that does not bind, and
	// crowdMin what it adds to that: so a sudden crowd passes.
	crowd, crowdMin = 1.5, 4
	// crowdForget is how long it takes to forget that there was a crowd. It is several
	// times as long as what lies between the crowds of usual traffic.
	crowdForget = time.Minute
	// queueSome is the share of waiting above which a limit that does not bind does not
	// rise, and from which it falls if the queue stands for that long. A target that is
	// well used has queues too, but they pass. A queue that stands means that another
	// proxy's gate binds, which would have to give way alone.
	queueSome, queueStands = .12, 3 * time.Second
	// queueMuch is the share of waiting with which a limit falls to what is at work that
	// does not bind, once the queue has lasted for that long: then every proxy's limit is
	// too high.
	queueMuch, queueLasts = .5, time.Second
	// queueOver is the time over which waiting is smoothed for this: a few windows.
	queueOver = 500 * time.Millisecond
)

// room is what is known of the time in which the gate did not bind.
type room struct {
	most    float64   // in flight lately
	waiting float64   // the share of the answer time, smoothed
	relief  time.Time // when there was no queue last
}

// judgeRoom moves a limit that does not bind.
func (g *Gate) judgeRoom(now time.Time, r *reading) bool {
	if !r.long && r.waiting > .25 {
		return false
	}
	g.note(r)
	m := &g.room
	m.most += (r.mean - m.most) * min(1, float64(r.span)/float64(crowdForget))
	m.most = max(float64(g.window.peak), m.most)
	stands := now.Sub(m.relief) > queueStands
	switch to := crowd*m.most + crowdMin; {
	case m.waiting > queueMuch && r.waiting-2*r.noise > queueMuch && now.Sub(m.relief) > queueLasts:
		g.atWork += .2 * (r.atWork - g.atWork)
		m.most = r.mean
		g.fall(now, r.atWork+math.Sqrt(r.atWork), Latency)
	case m.waiting <= queueSome && r.waiting-2*r.noise <= queueSome || g.limit > to:
		g.set(to)
	case stands || m.waiting > queueMost:
		g.set(g.limit + (1.1*r.mean+1-g.limit)/2)
		if stands {
			m.most = r.mean
		}
	}
	if m.waiting <= queueSome {
		g.learn(r)
	}
	if stands {
		g.atWork += .2 * (r.atWork - g.atWork)
	}
	return true
}

// note follows the queue in the target.
func (m *room) note(now time.Time, r *reading) {
	m.waiting += (r.waiting - m.waiting) * min(1, float64(r.span)/float64(queueOver))
	if m.waiting <= queueSome || now.Before(m.relief) {
		m.relief = now
	}
}
