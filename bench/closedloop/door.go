package closedloop

import (
	"time"

	"weir/proxy/gate"
	"weir/proxy/upstream"
)

// How the proxy has requests wait for a place.
const (
	gateWait    = 0.05    // seconds
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
	tally    doorTally
}

// A doorTally sums up over time.
type doorTally struct {
	at                    float64
	inFlight, limit, held float64 // requests × s, requests × s, s
}

func newDoor(start time.Time) *door {
	return &door{start: start, gate: gate.New(gate.Config{Max: connections}), line: upstream.NewLine[*visit](lineMax)}
}

func (d *door) time(now float64) time.Time {
	return d.start.Add(time.Duration(now * float64(time.Second)))
}

// spend lets time pass until now.
func (d *door) spend(now float64) {
	t, span := &d.tally, now-d.tally.at
	t.inFlight += span * float64(d.inFlight)
	t.limit += span * float64(d.gate.Limit())
	if d.line.Len() > 0 {
		t.held += span
	}
	t.at = now
}

func (d *door) room() bool { return d.inFlight < d.gate.Limit() }

// enter asks for a place for v, and reports whether it has one. Else it may wait so long.
func (d *door) enter(now float64, v *visit) (sent bool, wait float64) {
	d.spend(now)
	if d.room() {
		d.send(now, v, false)
		return true, 0
	}
	d.line.Join(&v.Waiter)
	return false, gateWait
}

// send tells that v goes to the target.
func (d *door) send(now float64, v *visit, waited bool) {
	d.inFlight++
	v.answer = gate.Answer{Sent: d.time(now), InFlight: d.inFlight, Full: waited || !d.room()}
}

// leave tells that v has waited in vain.
func (d *door) leave(now float64, v *visit) {
	d.spend(now)
	d.line.GiveUp(d.time(now), &v.Waiter)
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
	w := d.line.Next(d.time(now), d.gate.Limit()-d.inFlight)
	d.send(now, w.Value, true)
	return w.Value
}

// take returns the means of the span that ends at now, and begins the next one.
func (d *door) take(now, span float64) (inFlight, limit, held float64) {
	d.spend(now)
	t := d.tally
	d.tally = doorTally{at: now}
	return t.inFlight / span, t.limit / span, min(1, t.held/span)
}
