package closedloop

import (
	"math"

	"weir/proxy/limit"
)

// local makes a contestant of who limits what is in flight.
func local(name string, f func(*Scenario) Local) Contestant {
	return Contestant{name, func(s *Scenario) Control {
		return Control{Initial: limit.Config{Algorithm: limit.Off}, Local: f(s)}
	}}
}

// The bounds that the libraries have by default.
const (
	localInitial  = 20.0
	localMin      = 20.0
	localMax      = 200.0
	vegasMax      = 1000.0
	vegasMultiple = 30.0 // answers per place between looks for a new shortest latency
)

// AIMD adds one for an answer while at least half is used, and gives up a tenth
// when a client gave up or waited for five seconds, as it comes.
func AIMD() Contestant {
	const usual = 5.0
	return local("AIMD", func(*Scenario) Local { return &aimd{localInitial, usual} })
}

// PromisedAIMD is AIMD that was told how long an answer may take.
func PromisedAIMD() Contestant {
	return local("AIMD, told the SLO", func(s *Scenario) Local { return &aimd{localInitial, s.Promise()} })
}

type aimd struct{ limit, slow float64 }

func (a *aimd) Admits(_ float64, inflight int) bool { return float64(inflight) < a.limit }
func (a *aimd) Watch(float64, float64)              {}
func (a *aimd) Answered(_, latency float64, inflight int, dropped bool) {
	switch {
	case dropped || latency > a.slow:
		a.limit *= 0.9
	case float64(inflight)*2 >= a.limit:
		a.limit++
	}
	a.limit = math.Floor(min(max(a.limit, localMin), localMax))
}

// Gradient2 follows how a short average of the latency compares with a long one.
func Gradient2() Contestant {
	return local("Gradient2", func(*Scenario) Local { return &gradient2{limit: localInitial} })
}

type gradient2 struct {
	limit float64
	long  float64 // mean latency of about 600 answers
	n     float64
}

func (g *gradient2) Admits(_ float64, inflight int) bool {
	return float64(inflight) < math.Floor(g.limit)
}
func (g *gradient2) Watch(float64, float64) {}
func (g *gradient2) Answered(_, latency float64, inflight int, _ bool) {
	const window, warmUp, tolerance, queue, smooth = 600, 10, 1.5, 4, 0.2
	if g.n++; g.n <= warmUp {
		g.long += (latency - g.long) / g.n
	} else {
		g.long += (latency - g.long) * 2 / (window + 1)
	}
	if g.long/latency > 2 { // the load went away
		g.long *= 0.95
	}
	if float64(inflight) < g.limit/2 {
		return
	}
	gradient := max(0.5, min(1, tolerance*g.long/latency))
	g.limit = g.limit*(1-smooth) + smooth*(g.limit*gradient+queue)
	g.limit = min(max(g.limit, localMin), localMax)
}

// Vegas takes the latency beyond the shortest one for a queue.
func Vegas() Contestant {
	return local("Vegas", func(*Scenario) Local { return &vegas{limit: localInitial} })
}

type vegas struct {
	limit    float64
	shortest float64
	since    float64 // answers since the shortest was looked for
}

func (v *vegas) Admits(_ float64, inflight int) bool { return float64(inflight) < math.Floor(v.limit) }
func (v *vegas) Watch(float64, float64)              {}
func (v *vegas) Answered(_, latency float64, inflight int, dropped bool) {
	if v.since++; v.since > vegasMultiple*v.limit || v.shortest == 0 || latency < v.shortest {
		v.since, v.shortest = 0, latency
		return
	}
	step := max(1, math.Floor(math.Log10(v.limit)))
	queue := math.Ceil(v.limit * (1 - v.shortest/latency))
	switch {
	case dropped:
		v.limit -= step
	case float64(inflight)*2 < v.limit:
		return
	case queue <= step:
		v.limit += 6 * step
	case queue < 3*step:
		v.limit += step
	case queue > 6*step:
		v.limit -= step
	}
	v.limit = min(max(v.limit, 1), vegasMax)
}

// BBR refuses while the workers are busy and more is in flight than the best
// throughput times the shortest latency of the last ten seconds.
func BBR() Contestant {
	return local("BBR", func(*Scenario) Local { return &bbr{dropped: math.Inf(-1)} })
}

// Of ten seconds, in 100 slots; the one that is filling does not count.
const (
	bbrSlots   = 100
	bbrSlot    = 0.1  // seconds
	bbrBusy    = 0.8  // of the workers
	bbrDecay   = 0.95 // of the average of busy
	bbrCooling = 1.0  // seconds after a refusal in which it goes on looking
)

type bbr struct {
	busy    float64
	dropped float64 // when last refused
	slot    int
	passed  [bbrSlots]float64
	sum     [bbrSlots]float64 // of latencies
	most    float64           // in flight, from the slots before this
}

func (b *bbr) Watch(_, busy float64) { b.busy = bbrDecay*b.busy + (1-bbrDecay)*busy }

func (b *bbr) Admits(now float64, inflight int) bool {
	b.turn(now)
	if b.busy < bbrBusy && now-b.dropped > bbrCooling {
		return true
	}
	if inflight > 1 && float64(inflight) > b.most {
		if b.busy >= bbrBusy {
			b.dropped = now
		}
		return false
	}
	return true
}

func (b *bbr) Answered(now, latency float64, _ int, dropped bool) {
	b.turn(now)
	if !dropped {
		b.passed[b.slot%bbrSlots]++
		b.sum[b.slot%bbrSlots] += latency
	}
}

// turn empties the slots that now is beyond of.
func (b *bbr) turn(now float64) {
	slot := int(now / bbrSlot)
	if slot == b.slot {
		return
	}
	pass, shortest := 1.0, math.Inf(1)
	for i := range b.passed {
		if b.passed[i] > 0 {
			pass = max(pass, b.passed[i])
			shortest = min(shortest, b.sum[i]/b.passed[i])
		}
	}
	b.most = math.Inf(1)
	if !math.IsInf(shortest, 1) {
		b.most = math.Floor(pass*shortest/bbrSlot + 0.5)
	}
	for i := max(b.slot+1, slot-bbrSlots+1); i <= slot; i++ {
		b.passed[i%bbrSlots], b.sum[i%bbrSlots] = 0, 0
	}
	b.slot = slot
}
