package policy

import (
	"math"
	"time"
)

// The guard's view of the target.
const (
	stateOK   = "ok"
	stateWarn = "warn" // slower than the SLO, or errors above 1 %
	stateBad  = "bad"  // 1.5 times slower than the SLO, or errors above 5 %
)

const (
	firstSnapshots = 3    // are watched before anything rises
	badSlow        = 1.5  // × SLO
	badErrors      = 0.05 // share
	warnErrors     = 0.01
	warnsToBad     = 3   // so many warnings in a row are bad
	badCut         = 0.7 // of what the target finished
	warnCut        = 0.95
	drainMin       = 0.6 // of the capacity, to work off a queue of any length …
	drainMax       = 0.97
	clearing       = 0.75 // × the errors before: a queue is being worked off
	restSnapshots  = 1    // without a raise after a bad one, while little is known
	raiseSpan      = 2    // snapshots in which an overload is blamed on a raise
	goodAfter      = 3    // good snapshots that make a limit the last good one
	easy           = 0.6  // × SLO: no queue worth mentioning
	blockShy       = 0.95 // of a rate that failed
	blockSpan      = 5 * time.Minute
	blocksMax      = 4 // doublings of blockSpan
)

// A Guard is what the reactive part remembers.
type Guard struct {
	State      string    `json:"state"`
	OKs        int       `json:"oks"`                // in a row
	Warns      int       `json:"warns,omitempty"`    // in a row
	Rest       int       `json:"rest,omitempty"`     // snapshots left without a raise
	Raised     int       `json:"raised,omitempty"`   // snapshots since the limit rose; 0: long ago
	LastRate   float64   `json:"lastRate,omitempty"` // in force at the last snapshot
	Calm       int       `json:"calm,omitempty"`     // snapshots in a row that refused although there was no queue
	Knee       float64   `json:"knee,omitempty"`     // load at which a queue was seen; 0: none lately
	KneeAt     time.Time `json:"kneeAt"`
	Reductions int       `json:"reductions,omitempty"` // in the present episode
	Start      Trouble   `json:"start"`                // at its first
	Last       Trouble   `json:"last"`                 // at its newest
	Fault      Fault     `json:"fault"`

	Ceiling      float64   `json:"ceiling,omitempty"` // no raise above it …
	CeilingUntil time.Time `json:"ceilingUntil"`      // … until then
	Blocks       int       `json:"blocks,omitempty"`  // doublings of the next block
}

// Trouble is what a bad snapshot showed.
type Trouble struct {
	Rate     float64 `json:"rate,omitempty"`     // the limit
	Admitted float64 `json:"admitted,omitempty"` // requests/s
	P95      float64 `json:"p95,omitempty"`      // s
	Errors   float64 `json:"errors,omitempty"`   // share
	Proven   float64 `json:"proven,omitempty"`   // rate that was fine before
}

// resume forgets what only makes sense from one snapshot to the next.
func (g *Guard) resume() {
	g.OKs, g.Warns, g.Rest, g.Raised, g.Calm, g.Reductions, g.LastRate = 0, 0, 0, 0, 0, 0, 0
}

// A verdict is what the guard demands.
type verdict struct {
	state   string
	atMost  float64 // limit; +Inf: nothing
	restore float64 // limit to go back up to; 0: none
	code    string  // of a demand
	raise   bool    // raises are allowed
	clears  bool    // only the queue of before is seen
}

// judge looks at r and may demand that the limit falls.
func (p *Policy) judge(r reading) verdict {
	g := &p.st.Guard
	p.raised(r)
	v := verdict{state: p.severity(r), atMost: math.Inf(1)}
	v.clears = v.state != stateOK && p.clears(r)
	g.State = v.state
	p.faultEnds(r)
	p.calm(r, v.state)
	if v.state != stateOK && !v.clears {
		p.st.Belief.Alert = alertSpan
	}
	switch v.state {
	case stateBad:
		p.bad(r, &v)
	case stateWarn:
		p.warn(r, &v)
	default:
		p.fine(r)
	}
	v.raise = v.state == stateOK && (g.Rest == 0 || p.sure()) && p.st.Count >= firstSnapshots
	if g.Rest > 0 && v.state == stateOK {
		g.Rest--
	}
	return v
}

// raised keeps how long ago the limit rose, whoever raised it.
func (p *Policy) raised(r reading) {
	g := &p.st.Guard
	switch {
	case g.LastRate > 0 && r.rate > g.LastRate*(1+deadBand):
		g.Raised = 1
	case g.Raised >= raiseSpan:
		g.Raised = 0
	case g.Raised > 0:
		g.Raised++
	}
	g.LastRate = r.rate
}

// calm counts the snapshots in which the limit refused and yet the target showed no
// queue, and keeps the load at which one was seen lately, until none is seen there.
func (p *Policy) calm(r reading, state string) {
	g := &p.st.Guard
	if p.st.Base == 0 || r.n < thin {
		return
	}
	if g.Knee > 0 && r.at.Sub(g.KneeAt) > kneeSpan {
		g.Knee, g.Calm = 0, 0
	}
	slow := r.p95 / p.st.Base
	switch {
	case state != stateOK || slow > queueSeen:
		g.Calm = 0
		if slow > queueSeen && g.Reductions == 0 {
			g.Knee, g.KneeAt = min(r.load, p.st.Capacity.Q50), r.at
		}
	case slow < queueNone:
		if g.Knee > 0 && r.load > g.Knee {
			g.Knee, g.Calm = 0, 0
		}
		g.Calm++
		if !r.binds {
			g.Calm = 0
		}
		if g.Calm >= 2 && r.rate >= blockShy*g.Ceiling {
			g.Ceiling, g.CeilingUntil = 0, r.at // what failed there has passed
		}
	default:
		g.Calm = 0
	}
}

const (
	queueNone = 1.12 // × base: no queue
	queueSeen = 1.3  // × base: a queue
	kneeSpan  = 10 * time.Minute
)

// severity names the state that r shows, with the doubt that few requests leave. A
// fault that is known counts only where it got worse.
func (p *Policy) severity(r reading) string {
	slow := 0.0
	if slo := p.slo(); slo > 0 && r.n >= 1 {
		slow = r.p95 * math.Exp(-1.5/math.Sqrt(r.n)) / slo
	}
	errors := lowest(r.errors, r.n)
	if f := &p.st.Guard.Fault; f.Active {
		if errors <= 1.5*f.Errors+0.02 {
			errors = 0
		}
		if f.P95 > 0 && r.p95 <= 1.5*f.P95 {
			slow = 0
		}
	}
	switch {
	case slow > badSlow || errors > badErrors:
		return stateBad
	case slow > 1 || errors > warnErrors:
		if p.st.Guard.Warns+1 >= warnsToBad {
			return stateBad
		}
		return stateWarn
	}
	return stateOK
}

// fine notes a snapshot in which the target was at ease.
func (p *Policy) fine(r reading) {
	g := &p.st.Guard
	g.Warns, g.Reductions = 0, 0
	g.OKs++
	if r.n >= thin {
		slot := p.slot(r.at)
		slot.Proven = max(slot.Proven, r.admitted)
	}
	if g.OKs >= goodAfter && (r.admitted >= 0.6*r.rate || !r.binds) {
		good := r.limit
		p.st.LastGood = &good
	}
	if g.Blocks > 0 && r.at.Sub(g.CeilingUntil) > blockSpan {
		g.Blocks = 0
	}
}

// warn lowers the limit a little.
func (p *Policy) warn(r reading, v *verdict) {
	g := &p.st.Guard
	g.Warns++
	g.OKs = 0
	v.atMost, v.code = warnCut*r.rate, Slow
	if v.clears {
		v.atMost = r.rate
		return
	}
	if g.Reductions == 0 {
		g.Start, g.Reductions = p.trouble(r), 1
	}
	g.Last = p.trouble(r)
}

func (p *Policy) trouble(r reading) Trouble {
	return Trouble{r.rate, r.admitted, r.p95, r.errors, p.proven()}
}

// bad lowers the limit, unless that does not help.
func (p *Policy) bad(r reading, v *verdict) {
	g := &p.st.Guard
	g.OKs, g.Warns = 0, 0
	if g.Reductions == 0 {
		g.Start = p.trouble(r)
	}
	if p.isFault(r) {
		p.fault(r, v)
		return
	}
	g.Rest = restSnapshots
	v.code = Overload
	v.atMost = r.rate
	if !v.clears {
		v.atMost = p.reduced(r)
	}
	p.disprove(0.95 * r.admitted)
	if g.Raised > 0 && g.Reductions == 0 {
		p.rollBack(r, v)
	}
	g.Reductions++
	g.Last = p.trouble(r)
}

// rollBack blames the last raise: it is taken back, and for a while nothing rises
// that far again; longer each time while little is known.
func (p *Policy) rollBack(r reading, v *verdict) {
	g := &p.st.Guard
	v.code = Rollback
	if good := p.st.LastGood; good != nil && good.Rate() < r.rate {
		v.atMost = min(v.atMost, good.Rate())
	}
	g.Ceiling = blockShy * r.rate
	g.CeilingUntil = r.at.Add(blockSpan << g.Blocks)
	if !p.sure() {
		g.Blocks = min(g.Blocks+1, blocksMax)
	}
	g.Raised = 0
}

// reduced is the limit at which an overloaded target works its queue off within a
// third of the interval, as far as its capacity is known, or else badCut of what
// it was given.
func (p *Policy) reduced(r reading) float64 {
	served := r.admitted
	if r.p95 <= p.slo() {
		served *= 1 - r.errors // it sheds what is too much, and nothing waits
	}
	if !p.sure() {
		return badCut * min(r.rate, served)
	}
	backlog := r.p95 - p.st.Base
	if r.errors > badErrors {
		backlog = max(2*r.p95, p.backlog())
	}
	drain := min(max(1-backlog/(r.dt/3), drainMin), drainMax)
	return drain * min(r.rate, served, p.capFor(p.best(r), r.demand))
}

// clears says whether the target suffers from the queue only that it had before the
// limit fell: the newest p95 shows that even when it is worked off by now.
func (p *Policy) clears(r reading) bool {
	g := &p.st.Guard
	switch {
	case g.Reductions == 0:
		return false
	case r.errors > badErrors && r.errors < clearing*g.Last.Errors:
		return true
	}
	return g.Reductions == 1 && p.sure() && p.backlog() < p.st.Base/2 &&
		r.p95 <= 1.2*g.Last.P95 && r.errors <= g.Last.Errors
}

// backlog is how many seconds of work wait at the median capacity.
func (p *Policy) backlog() float64 {
	b := &p.st.Belief
	i := int(math.Round((math.Log(p.st.Capacity.Q50) - b.First) / cellWidth))
	return b.Backlog[min(max(i, 0), cells-1)]
}
