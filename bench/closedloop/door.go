package closedloop

import (
	"time"

	"weir/proxy/gate"
	"weir/proxy/upstream"
)

const (
	connections = 1024    // to the target
	lineMax     = 1 << 20 // who may wait
)

// A pass is what a request has at the door.
type pass struct {
	upstream.Waiter[*visit]
	answer gate.Answer
}

// A door is the proxy's gate with the proxy's line in front of it.
//
// Owned by its run.
type door struct {
	start    time.Time
	gate     *gate.Gate
	line     *upstream.Line[*visit]
	inFlight int
	used     usage
	at       float64 // until when
}

// A usage is how much of the target's places was used, added up over time in seconds.
type usage struct {
	taken  float64 // in flight
	places float64 // that the gate gives
	bound  float64 // … while all are taken
}

func (u *usage) add(o usage) {
	u.taken += o.taken
	u.places += o.places
	u.bound += o.bound
}

func newDoor(start time.Time) *door {
	d := &door{start: start, gate: gate.New(gate.Config{Max: connections})}
	d.line = upstream.NewLine[*visit](lineMax, func(time.Time) int { return d.gate.Limit() - d.inFlight })
	return d
}

func (d *door) time(now float64) time.Time {
	return d.start.Add(time.Duration(now * float64(time.Second)))
}

// spend lets time pass until now.
func (d *door) spend(now float64) {
	span, places := now-d.at, float64(d.gate.Limit())
	d.at = now
	d.used.taken += span * float64(d.inFlight)
	d.used.places += span * places
	if !d.room() {
		d.used.bound += span * places
	}
}

func (d *door) room() bool { return d.inFlight < d.gate.Limit() }

// enter asks for a place for v, and reports whether it has one. Else it may wait so long.
func (d *door) enter(now float64, v *visit) (sent bool, wait float64) {
	d.spend(now)
	if d.room() {
		d.send(now, v, false)
		return true, 0
	}
	d.line.Join(d.time(now), &v.Waiter)
	return false, gate.Wait.Seconds()
}

// send tells that v goes to the target.
func (d *door) send(now float64, v *visit, waited bool) {
	d.inFlight++
	v.answer = gate.Answer{Sent: d.time(now), InFlight: d.inFlight, Full: waited || !d.room()}
}

// late tells that v has waited for long, and returns for how long it may wait on; 0: it
// has left.
func (d *door) late(now float64, v *visit) (wait float64) {
	d.spend(now)
	at := d.time(now)
	if until, ok := d.line.Late(at, &v.Waiter, gate.Wait); ok {
		wait = until.Sub(at).Seconds()
	}
	return wait
}

// answered tells that v was answered.
func (d *door) answered(now float64, v *visit) {
	d.spend(now)
	d.inFlight--
	v.answer.Refused = v.outcome != fine
	d.gate.Answered(d.time(now), &v.answer)
}

// next is who is to be sent now that there is a place; nil: nobody.
func (d *door) next(now float64) *visit {
	if d.line.Len() == 0 || !d.room() {
		return nil
	}
	w := d.line.Next(d.time(now))
	d.send(now, w.Value, true)
	return w.Value
}

// take returns what was used since the last time.
func (d *door) take(now float64) usage {
	d.spend(now)
	u := d.used
	d.used = usage{}
	return u
}
