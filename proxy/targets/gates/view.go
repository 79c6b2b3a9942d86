package gates

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"weir/proxy/targets/gate"
	"weir/proxy/targets/roster"
)

// A state is the reported state of a gate.
type state struct {
	gate.State     // zero if no request was sent to the target yet
	least      int // bounds of the limit
	most       int
	inFlight   int
	waiting    int64
	shed       uint64
}

// state returns the state of the gate of a target.
func (g *Gates) state(spec *roster.Target) (st state) {
	of := g.cfg.Of(spec)
	if of == nil {
		return st
	}
	st.inFlight, st.waiting = of.InFlight(), of.Waiting.Load()
	for class := range of.Shed {
		st.shed += of.Shed[class].Load()
	}
	if of.Limit() > 0 {
		b := g.Bounds()
		st.State, st.least, st.most = of.State(), b.Min, b.Max
	}
	return st
}

// A StatusReport is the answer to GET /config/gate.
type StatusReport struct {
	Mode string `json:"mode"`
	// seconds: a wait for a place from this time on is long, see upstream.Queue; 0: requests do not wait
	Wait    float64  `json:"wait"`
	WaitMax float64  `json:"waitMax,omitempty"`    // seconds: bound on such a wait
	SLO     float64  `json:"slo,omitempty"`        // seconds: the 95th percentile that clients expect
	Advised int      `json:"advisedMax,omitempty"` // upper bound of each limit according to the advisor
	Count   int      `json:"count"`                // of the targets that match the request
	Targets []Status `json:"targets"`              // those that shed most first, then in the order of the list
}

// A Status is the state of the gate of one target. Times are in seconds.
type Status struct {
	Number   int               `json:"number"` // as in GET /config/targets
	URL      string            `json:"target"`
	Address  string            `json:"address"`
	Limit    int               `json:"limit"`    // 0: no request was sent to the target yet
	LimitMin int               `json:"limitMin"` // bounds of the limit
	LimitMax int               `json:"limitMax"`
	InFlight int               `json:"inFlight"`
	Waiting  int64             `json:"waiting"`
	Shed     uint64            `json:"shed"`
	Baseline float64           `json:"baseline"` // median answer time without a queue
	Median   float64           `json:"median"`
	Share    float64           `json:"waitingShare"` // share of the answer time that is waiting in the target
	Cuts     map[string]uint64 `json:"cuts"`
	Last     []Decrease        `json:"lastCuts"` // the latest reductions, oldest first
}

// A Decrease is a reduction of a limit.
type Decrease struct {
	At       time.Time `json:"at"`
	From     int       `json:"from"`
	To       int       `json:"to"`
	Why      string    `json:"why"`
	Median   float64   `json:"median"`
	Baseline float64   `json:"baseline"`
}

// DecreaseOf returns a decrease in its JSON form.
func DecreaseOf(c *gate.Decrease) Decrease {
	return Decrease{c.At.UTC(), c.From, c.To, c.Why.String(), c.Median.Seconds(), c.Baseline.Seconds()}
}

// Report returns the state of the gates of at most limit targets: of the one with the given URL,
// address or number, or of any if target is empty.
func (g *Gates) Report(target string, limit int) StatusReport {
	r := StatusReport{Mode: g.cfg.Mode.String(), Wait: g.cfg.Wait.Seconds(), WaitMax: g.cfg.WaitMax.Seconds(),
		SLO: g.cfg.SLO.Seconds(), Targets: []Status{}}
	if g.cfg.Mode == gate.Off {
		return r
	}
	r.Advised = int(g.advised.Load())
	type one struct {
		spec  *roster.Target
		state state
	}
	var found []one
	for _, spec := range g.cfg.Targets.All() {
		if target == "" || target == spec.URL || target == spec.Addr || target == strconv.Itoa(g.cfg.Targets.Number(spec)) {
			found = append(found, one{spec, g.state(spec)})
		}
	}
	slices.SortStableFunc(found, func(a, b one) int { return cmp.Compare(b.state.shed, a.state.shed) })
	r.Count = len(found)
	for _, o := range found[:min(limit, len(found))] {
		r.Targets = append(r.Targets, g.status(o.spec, &o.state))
	}
	return r
}

func (g *Gates) status(spec *roster.Target, is *state) Status {
	st := Status{Number: g.cfg.Targets.Number(spec), URL: spec.URL, Address: spec.Addr, Limit: is.Limit,
		LimitMin: is.least, LimitMax: is.most,
		InFlight: is.inFlight, Waiting: is.waiting, Shed: is.shed, Baseline: is.Baseline.Seconds(),
		Median: is.Median.Seconds(), Share: is.State.Waiting,
		Cuts: map[string]uint64{}, Last: []Decrease{}}
	for why, n := range is.Cuts {
		st.Cuts[gate.Reason(why).String()] = n
	}
	for i := range is.Last {
		st.Last = append(st.Last, DecreaseOf(&is.Last[i]))
	}
	return st
}
