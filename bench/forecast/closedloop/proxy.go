package closedloop

import (
	"cmp"
	"time"

	"weir/proxy/targets/gate"
	"weir/proxy/targets/upstream"
)

const (
	connections = 1024    // to the target
	lineMax     = 1 << 20 // requests that may wait
)

// A pass is the state of a request at the door.
type pass struct {
	upstream.Waiter[*visit]
	answer gate.Response
	door   *proxy // where it was admitted
}

// A proxy is the proxy's gate and line.
//
// Owned by its run.
type proxy struct {
	start    time.Time
	gate     *gate.Gate
	queue    *upstream.Queue[*visit]
	inFlight int
	used     usage
	at       float64 // until when used is added up
}

// A usage is how much of the target's places was used, added up over time in seconds.
type usage struct {
	taken  float64 // places taken
	places float64 // the gate's limit
	bound  float64 // the gate's limit while all places are taken
}

func (u *usage) add(o usage) {
	u.taken += o.taken
	u.places += o.places
	u.bound += o.bound
}

func newDoor(start time.Time, now float64) *proxy {
	d := &proxy{start: start, at: now, gate: gate.New(gate.Config{Max: connections})}
	d.queue = upstream.NewQueue[*visit](lineMax, func(time.Time) upstream.Capacity {
		return upstream.Capacity{Free: d.gate.Limit() - d.inFlight, Busy: d.gate.Busy()}
	})
	return d
}

func (d *proxy) time(now float64) time.Time {
	return d.start.Add(time.Duration(now * float64(time.Second)))
}

func (d *proxy) spend(now float64) {
	span, places := now-d.at, float64(d.gate.Limit())
	d.at = now
	d.used.taken += span * float64(d.inFlight)
	d.used.places += span * places
	if !d.room() {
		d.used.bound += span * places
	}
}

func (d *proxy) room() bool { return d.inFlight < d.gate.Limit() }

// enter asks for a place for v, and reports whether it got one. Otherwise it waits in line
// for up to wait seconds.
func (d *proxy) enter(now float64, v *visit) (sent bool, wait float64) {
	d.spend(now)
	if d.room() {
		d.send(now, v, false)
		return true, 0
	}
	d.queue.Join(d.time(now), &v.Waiter)
	return false, gate.WaitDefault.Seconds()
}

// send records that v is sent to the target.
func (d *proxy) send(now float64, v *visit, waited bool) {
	d.inFlight++
	v.answer = gate.Response{Sent: d.time(now), InFlight: d.inFlight, Full: waited || !d.room()}
}

// late handles the end of v's longest wait, and returns for how long it may continue to
// wait; 0: it has left the line.
func (d *proxy) late(now float64, v *visit) (wait float64) {
	d.spend(now)
	at := d.time(now)
	if until, ok := d.queue.Late(at, &v.Waiter, gate.WaitDefault); ok {
		wait = until.Sub(at).Seconds()
	}
	return wait
}

func (d *proxy) answered(now float64, v *visit) {
	d.spend(now)
	v.answer.Crowded, v.answer.Alone = !d.room(), d.inFlight <= 1
	d.inFlight--
	v.answer.Refused = v.outcome != fine
	d.gate.Answered(d.time(now), &v.answer)
}

// next returns the next visit in line if there is a place for it, or nil.
func (d *proxy) next(now float64) *visit {
	if d.queue.Len() == 0 || !d.room() {
		return nil
	}
	w := d.queue.Next(d.time(now))
	d.send(now, w.Value, true)
	return w.Value
}

// bind changes the upper bound of the gate's limit; 0: that of the connections.
func (d *proxy) bind(now float64, most float64) {
	d.spend(now)
	d.gate.Bound(cmp.Or(int(most), connections))
}

// take returns the usage since the last call.
func (d *proxy) take(now float64) usage {
	d.spend(now)
	u := d.used
	d.used = usage{}
	return u
}
