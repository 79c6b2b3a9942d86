package closedloop

import (
	"fmt"
	"math"
	"slices"

	"weir/internal/timing/agenda"
	"weir/proxy/limit"
	"weir/proxy/limit/rails"
	"weir/proxy/targets/gate"
)

const (
	applyAfter  = 1.0 // seconds from a snapshot until its answer is in force
	microsecond = 1e6
	refusalTime = 0.001 // seconds that the target takes to refuse a request
)

// A visit is a request that the limiter has let through.
type visit struct {
	arrival
	pass
	life    uint32
	sent    float64
	wait    float64 // in the target's queue
	outcome outcome
	low     bool // when it came the demand was below what always fits
}

// An outcome is what became of a visit.
type outcome uint8

const (
	fine     outcome = iota // answered
	failed                  // answered 5xx
	timedOut                // not answered before the proxy gave up
	shed                    // refused by the target: its queue is full
	gated                   // refused by the gate: nothing was sent
)

// A event is something that happens to a visit.
type event struct {
	visit *visit
	life  uint32 // of the visit; if it differs, the visit is over
	late  bool   // its longest wait for a place is over; otherwise its answer has arrived
}

// A run is a scenario being played.
//
// Owned by Run.
type run struct {
	s       *Scenario
	c       Control
	crowd   *clients
	queue   *queue
	door    *proxy // nil: there is no gate
	lim     limit.Limit
	state   limit.State
	config  limit.Config // in force
	rate    float64      // of config
	rails   rails.Rails
	born    float64 // when the proxy was started
	origin  int64   // start in microseconds since the epoch
	slo     float64
	fits    bool    // whether all demand of this second fits
	low     bool    // whether the demand of this second is below what always fits
	applyAt float64 // +Inf: nothing waits
	waiting limit.Config
	snaps   snapshots
	future  agenda.Queue[float64, event]
	spare   []*visit // unused
	meter   meter
}

// railStep is how far a limit goes in one step by default in the proxy's guard rails.
const railStep = 4

// Run simulates the scenario under the control. It fails if the control chooses an
// invalid limit.
func Run(s *Scenario, c Control) (*Result, error) {
	least, most := s.Bounds()
	r := &run{s: s, c: c, crowd: newCrowd(s), queue: newQueue(&s.Target, s.Seed), origin: s.Demand.Start.UnixMicro(),
		rails: rails.Rails{Min: least, Max: most, Step: railStep},
		slo:   s.SLO(), applyAt: math.Inf(1), snaps: newSnapshots(s), meter: newMeter(s)}
	if c.Gate {
		r.door = newDoor(s.Demand.Start, 0)
	}
	if err := r.apply(c.Initial); err != nil {
		return nil, err
	}
	for k := range s.Demand.Seconds() {
		if err := r.second(k); err != nil {
			return nil, err
		}
	}
	r.snaps.at, r.applyAt = math.Inf(1), math.Inf(1)
	if err := r.until(math.MaxFloat64); err != nil {
		return nil, err
	}
	result := r.meter.end()
	if c.Forecasts != nil {
		result.Forecasts = *c.Forecasts
	}
	return result, nil
}

// spareCapacity is the share of the capacity up to which a demand fits.
const spareCapacity = 0.95

func (r *run) second(k int) error {
	t := float64(k)
	if r.door != nil && t == r.born+gate.WarmUp.Seconds() {
		r.door.bind(t, 0)
	}
	if slices.Contains(r.s.Restarts, k) {
		r.restart(t)
	}
	all, first := r.crowd.second(k)
	demand, capacity := r.s.Demand.second(k), r.s.Target.Capacity(t)
	r.fits, r.low = demand < spareCapacity*capacity, demand < lowLoad*capacity
	r.meter.second(k, first, r.rate)
	for _, a := range all {
		if err := r.until(a.at); err != nil {
			return err
		}
		r.request(a)
	}
	return r.until(t + 1)
}

// restart replaces the proxy. The former one only completes its requests.
func (r *run) restart(now float64) {
	if r.door != nil {
		r.door = newDoor(r.s.Demand.Start, now)
	}
	r.born = now
	r.snaps.begin(now, r.door != nil)
	r.snaps.due = now + gate.ReportIntervalWhenFull.Seconds() // a new proxy asks at once
	r.snaps.look(now, r.door != nil)
}

// until processes what is due before now, in order.
func (r *run) until(now float64) error {
	for {
		next := min(r.snaps.at, r.applyAt)
		if r.future.Len() > 0 && r.future.First() <= next {
			if r.future.First() > now {
				return nil
			}
			r.happen(r.future.Next())
			continue
		}
		switch {
		case next > now:
			return nil
		case r.applyAt == next:
			r.applyAt = math.Inf(1)
			if err := r.apply(r.waiting); err != nil {
				return err
			}
		default:
			if err := r.advise(); err != nil {
				return err
			}
		}
	}
}

// advise ends an interval of snapshots and applies the answer as the proxy does.
func (r *run) advise() error {
	n, arrives := r.snaps.take(r)
	if r.c.Advise == nil || !arrives {
		return nil
	}
	wanted, changed := r.c.Advise(n)
	if r.door != nil && r.c.GateMax != nil && *r.c.GateMax > 0 && n.Elapsed < r.born+gate.WarmUp.Seconds() {
		r.door.bind(n.Elapsed, *r.c.GateMax)
	}
	if !changed {
		return nil
	}
	v, err := r.rails.Judge(n.At, rails.LimitInForce{Config: r.config}, wanted)
	if err != nil {
		return fmt.Errorf("recommended at %.0f s: %w", n.Elapsed, err)
	}
	for _, rail := range v.Crossed {
		r.meter.violation(n.Elapsed, fmt.Sprintf("%v: %s", rail, v.String()))
	}
	r.waiting, r.applyAt = v.Config, n.Elapsed+applyAfter
	return nil
}

func (r *run) request(a arrival) {
	now := a.at
	if !r.admits(now) {
		r.meter.rejected(r.low, r.fits && r.queue.next(now) <= now)
		r.snaps.rejected()
		r.crowd.failed(now, a)
		return
	}
	r.snaps.admitted()
	v := r.visit()
	v.arrival, v.low, v.door = a, r.low, r.door
	if r.door == nil {
		r.send(now, v)
		return
	}
	if sent, wait := r.door.enter(now, v); sent {
		r.send(now, v)
	} else {
		r.future.Add(now+wait, event{v, v.life, true})
	}
}

// admits decides as the perfect gate or the limit does.
func (r *run) admits(now float64) bool {
	if r.c.Perfect > 0 {
		return r.queue.next(now)-now <= r.c.Perfect*r.slo
	}
	granted, _ := r.lim.Take(r.origin+int64(now*microsecond), &r.state, 1, 1)
	return granted == 1
}

func (r *run) visit() *visit {
	if n := len(r.spare); n > 0 {
		v := r.spare[n-1]
		r.spare = r.spare[:n-1]
		return v
	}
	v := new(visit)
	v.pass.Value = v
	return v
}

func (r *run) send(now float64, v *visit) {
	start, done, fails, full := r.queue.serve(now)
	v.sent, v.wait, v.outcome = now, start-now, fine
	at := done
	switch {
	case full:
		at, v.outcome, v.wait = now+refusalTime, shed, 0
	case done-now > timeout:
		at, v.outcome = now+timeout, timedOut
	case fails:
		v.outcome = failed
	}
	r.future.Add(at, event{v, v.life, false})
}

func (r *run) happen(at float64, h event) {
	v := h.visit
	if h.life != v.life || h.late && !v.pass.Waiting() {
		return
	}
	if h.late {
		if wait := v.door.late(at, v); wait > 0 {
			r.future.Add(at+wait, event{v, v.life, true})
			return
		}
		v.outcome = gated
		r.over(at, v)
		return
	}
	if v.at >= r.born { // otherwise it is a former proxy's
		r.snaps.answered(at-v.sent, v.outcome != fine)
	}
	if d := v.door; d != nil {
		d.answered(at, v)
		for next := d.next(at); next != nil; next = d.next(at) {
			r.send(at, next)
		}
	}
	r.over(at, v)
}

func (r *run) over(now float64, v *visit) {
	latency := now - v.at
	r.meter.over(v, latency, v.outcome == fine && latency <= r.slo)
	if v.outcome != fine && v.outcome != failed {
		r.crowd.failed(now, v.arrival)
	}
	v.life++
	r.spare = append(r.spare, v)
}

func (r *run) apply(c limit.Config) error {
	if c == r.config {
		return nil
	}
	l, err := limit.New(c)
	if err != nil {
		return err
	}
	rate := l.Rate()
	if c.Algorithm == limit.Off {
		rate = 0 // none
	}
	r.meter.changed(r.config, rate)
	r.config, r.lim, r.rate = c, l, rate
	return nil
}
