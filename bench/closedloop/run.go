package closedloop

import (
	"math"
	"math/rand/v2"
	"time"

	"weir/proxy/limit"
)

const (
	applyAfter  = 1.0  // seconds from a snapshot until its answer is in force
	jitter      = 0.1  // of the cycle, each way
	lostShare   = 0.01 // of snapshots
	watchCycle  = 0.5  // seconds between looks at the workers
	microsecond = 1e6
)

// A run is a scenario being played.
//
// Owned by Run.
type run struct {
	s       *Scenario
	c       Control
	crowd   *crowd
	queue   *queue
	lim     limit.Limit
	state   limit.State
	config  limit.Config // in force
	rate    float64      // of config
	origin  int64        // start in microseconds since the epoch
	promise float64
	stage   Stage   // of the target in this second
	fits    bool    // whether all demand of this second fits
	low     bool    // whether the demand of this second is below what always fits
	applyAt float64 // +Inf: nothing waits
	waiting limit.Config
	watchAt float64
	snaps   snapshots
	flying  answers
	meter   meter
}

// Run plays the scenario under the control. The error says that the control chose
// a limit which there cannot be.
func Run(s *Scenario, c Control) (*Result, error) {
	r := &run{s: s, c: c, crowd: newCrowd(s), queue: newQueue(&s.Target, s.Seed), origin: s.Demand.Start.UnixMicro(),
		promise: s.Promise(), applyAt: math.Inf(1), watchAt: math.Inf(1), snaps: newSnapshots(s), meter: newMeter(s)}
	if c.Local != nil {
		r.watchAt = 0
	}
	if err := r.apply(0, c.Initial); err != nil {
		return nil, err
	}
	r.meter.begin(c.Bound)
	for k := range s.Demand.Seconds() {
		if err := r.second(k); err != nil {
			return nil, err
		}
	}
	result := r.meter.end()
	if c.Trail != nil {
		result.Foreseen = *c.Trail
	}
	return result, nil
}

func (r *run) second(k int) error {
	t := float64(k)
	all, first := r.crowd.second(k)
	if r.c.Prompt != nil {
		if err := r.apply(t, r.c.Prompt(t, float64(len(all)))); err != nil {
			return err
		}
	}
	r.stage = r.s.Target.stage(t)
	demand, capacity := r.s.Demand.second(k), r.s.Target.Capacity(t)
	r.fits, r.low = demand < r.s.Load*capacity, demand < lowLoad*capacity
	r.meter.second(k, first, r.rate)
	for _, a := range all {
		if err := r.until(a.at); err != nil {
			return err
		}
		r.request(a)
	}
	return r.until(t + 1)
}

// until does what is due before now.
func (r *run) until(now float64) error {
	for len(r.flying) > 0 && r.flying[0].at <= now {
		a := r.flying.pop()
		r.c.Local.Answered(a.at, a.latency, len(r.flying), a.dropped)
	}
	for r.watchAt <= now {
		r.c.Local.Watch(r.watchAt, r.queue.busy(r.watchAt))
		r.watchAt += watchCycle
	}
	for r.snaps.at <= now || r.applyAt <= now {
		if r.applyAt <= r.snaps.at {
			at := r.applyAt
			r.applyAt = math.Inf(1)
			if err := r.apply(at, r.waiting); err != nil {
				return err
			}
			continue
		}
		snapshot, arrives := r.snaps.take(r.config)
		if r.c.Advise == nil || !arrives {
			continue
		}
		if config, changed := r.c.Advise(snapshot); changed {
			r.waiting, r.applyAt = config, snapshot.Elapsed+applyAfter
		}
	}
	return nil
}

// request plays one request.
func (r *run) request(a arrival) {
	m, now := &r.meter, a.at
	admitted := false
	if r.c.Local != nil {
		admitted = r.c.Local.Admits(now, len(r.flying))
	} else {
		granted, _ := r.lim.Take(r.origin+int64(now*microsecond), &r.state, 1, 1)
		admitted = granted == 1
	}
	if !admitted {
		idle := r.queue.next(now) <= now
		r.queue.deny(now)
		r.snaps.rejected()
		m.rejected(r.low, idle && r.fits)
		r.crowd.failed(now, a)
		return
	}
	start, done, fails, full := r.queue.serve(now)
	latency := done - now
	switch {
	case full:
		done, latency, fails = now, 0.001, true
		m.shed(r.low)
		r.crowd.failed(now, a)
	case latency > timeout:
		done, latency, fails = now+timeout, timeout, true
		m.timedOut(r.low, start-now)
		r.crowd.failed(done, a)
	default:
		m.answered(r.low, start-now, latency, fails, latency <= r.promise)
	}
	r.snaps.answered(done, latency, fails)
	if r.c.Local != nil {
		r.flying.push(answer{done, latency, latency >= timeout || full})
	}
}

// apply puts a limit into force.
func (r *run) apply(now float64, c limit.Config) error {
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
	r.meter.changed(now, r.config, c, rate)
	r.config, r.lim, r.rate = c, l, rate
	return nil
}

// A tally is what a snapshot counts.
type tally struct {
	offered, rejected, answers, failed int
	latencies                          histogram
}

// snapshots counts what the limiter tells. Answers of requests that arrived
// before a snapshot and are answered after it belong to the next one.
type snapshots struct {
	at, last  float64
	draw      *rand.Rand
	cycle     float64
	start     time.Time
	now, next *tally
}

func newSnapshots(s *Scenario) snapshots {
	n := snapshots{draw: newRand(s.Seed, streamSnapshots), cycle: s.Cycle.Seconds(), start: s.Demand.Start, now: new(tally), next: new(tally)}
	n.at = n.span()
	return n
}

func (n *snapshots) span() float64 { return n.cycle * (1 + jitter*(2*n.draw.Float64()-1)) }

func (n *snapshots) rejected() {
	n.now.offered++
	n.now.rejected++
}

func (n *snapshots) answered(at, latency float64, fails bool) {
	n.now.offered++
	t := n.now
	if at > n.at {
		t = n.next
	}
	t.answers++
	if fails {
		t.failed++
	}
	t.latencies.add(latency)
}

// take ends a span and tells about it, and whether the news arrives.
func (n *snapshots) take(config limit.Config) (s Snapshot, arrives bool) {
	t, span := n.now, n.at-n.last
	s = Snapshot{Elapsed: n.at, At: n.start.Add(time.Duration(n.at * float64(time.Second))).Truncate(time.Millisecond),
		Interval: time.Duration(span * float64(time.Second)).Round(time.Millisecond),
		Observed: float64(t.offered) / span, Forwarded: float64(t.offered-t.rejected) / span,
		RejectedShare: float64(t.rejected) / float64(max(1, t.offered)), Errors: float64(t.failed) / float64(max(1, t.answers)),
		P95: time.Duration(t.latencies.quantile(.95) * float64(time.Second)), Limit: config}
	*t = tally{}
	n.now, n.next = n.next, t
	n.last, n.at = n.at, n.at+n.span()
	return s, n.draw.Float64() >= lostShare
}

// An answer is on its way to a client.
type answer struct {
	at, latency float64
	dropped     bool
}

// answers are a heap with the earliest on top.
type answers []answer

func (h *answers) push(a answer) {
	*h = append(*h, a)
	l := *h
	i := len(l) - 1
	for i > 0 && l[(i-1)/2].at > a.at {
		l[i] = l[(i-1)/2]
		i = (i - 1) / 2
	}
	l[i] = a
}

func (h *answers) pop() answer {
	l := *h
	top, a := l[0], l[len(l)-1]
	l = l[:len(l)-1]
	*h = l
	i := 0
	for {
		child := 2*i + 1
		if child >= len(l) {
			break
		}
		if child+1 < len(l) && l[child+1].at < l[child].at {
			child++
		}
		if l[child].at >= a.at {
			break
		}
		l[i] = l[child]
		i = child
	}
	if len(l) > 0 {
		l[i] = a
	}
	return top
}
