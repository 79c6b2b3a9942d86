package closedloop

import (
	"time"

	"weir/proxy/gate"
	"weir/proxy/upstream"
)

// How the proxy has requests wait for a place.
const (
	gateWait     = 0.05    // seconds
	gatePatience = 20      // times as long while the gate learns
	pressure     = 0.1     // seconds with somebody in line, after which the last is served first
	connections  = 1024    // to the target
	lineMax      = 1 << 20 // who may wait
)

// A pass is what a request has at the door.
type pass struct {
	upstream.Waiter[*visit]
	conn   int
	answer gate.Answer
}

// A door is the gate with the line in front of it: the proxy's, with the proxy's pool.
//
// Owned by its run.
type door struct {
	start     time.Time
	gate      *gate.Gate
	pool      *upstream.Pool[int, *visit]
	opened    int     // connections
	crowdedAt float64 // since when somebody has been waiting; negative: nobody is
	served    *visit  // who has the place of the last answer
	tally     doorTally
}

// A doorTally sums up over time.
type doorTally struct {
	at                    float64
	inFlight, limit, held float64 // requests × s, requests × s, s
}

func newDoor(start time.Time) *door {
	return &door{start: start, gate: gate.New(gate.Config{Max: connections}), pool: upstream.NewPool[int, *visit](connections, 0, lineMax), crowdedAt: -1}
}

func (d *door) time(now float64) time.Time {
	return d.start.Add(time.Duration(now * float64(time.Second)))
}

// spend lets time pass until now.
func (d *door) spend(now float64) {
	t, span := &d.tally, now-d.tally.at
	t.inFlight += span * float64(d.pool.Busy())
	t.limit += span * float64(d.gate.Limit())
	if d.pool.Waiting() > 0 {
		t.held += span
	}
	t.at = now
}

// enter asks for a place for v. first is who is to be sent: v, one who has waited
// before it, or nobody. v may wait so long.
func (d *door) enter(now float64, v *visit) (first *visit, wait float64) {
	d.spend(now)
	d.bound(now)
	c, grant := d.pool.Acquire(&v.Waiter, false)
	switch grant {
	case upstream.Ready:
		return d.sent(now, c, v, false), 0
	case upstream.WaitAndDial:
		d.opened++
		if w := d.pool.Dialled(d.opened); w != nil {
			return d.sent(now, d.opened, w.Value, w.Value != v), 0
		}
	}
	d.bound(now)
	wait = gateWait
	if d.gate.Learning() {
		wait *= gatePatience
	}
	return nil, wait
}

// bound has the pool keep the gate's limit.
func (d *door) bound(now float64) {
	switch {
	case d.pool.Waiting() == 0:
		d.crowdedAt = -1
	case d.crowdedAt < 0:
		d.crowdedAt = now
	}
	d.pool.SetLimit(d.gate.Limit(), d.crowdedAt >= 0 && now-d.crowdedAt > pressure)
}

// sent tells that v goes to the target.
func (d *door) sent(now float64, conn int, v *visit, waited bool) *visit {
	v.conn = conn
	v.answer = gate.Answer{Sent: d.time(now), InFlight: d.pool.Busy(), Full: waited || d.pool.Full()}
	return v
}

// leave tells that v has waited in vain.
func (d *door) leave(now float64, v *visit) {
	d.spend(now)
	d.pool.Cancel(&v.Waiter)
}

// answered tells that v was answered.
func (d *door) answered(now float64, v *visit) {
	d.spend(now)
	v.answer.Refused = v.outcome != fine
	if d.gate.Answered(d.time(now), &v.answer) {
		d.bound(now)
	}
	if w := d.pool.Release(v.conn); w != nil {
		d.served = d.sent(now, v.conn, w.Value, true)
	}
}

// next is somebody whose turn it is, and who is to be sent; nil: nobody.
func (d *door) next(now float64) *visit {
	if v := d.served; v != nil {
		d.served = nil
		return v
	}
	if d.pool.Waiting() == 0 {
		return nil
	}
	if c, w := d.pool.Next(); w != nil {
		return d.sent(now, c, w.Value, true)
	}
	if d.pool.DialMore() {
		d.opened++
		if w := d.pool.Dialled(d.opened); w != nil {
			return d.sent(now, d.opened, w.Value, true)
		}
	}
	return nil
}

// take returns the means of the span that ends at now, and begins the next one.
func (d *door) take(now, span float64) (inFlight, limit, held float64) {
	d.spend(now)
	t := d.tally
	d.tally = doorTally{at: now}
	return t.inFlight / span, t.limit / span, min(1, t.held/span)
}
