package wire

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"weir/proxy/gate"
	"weir/proxy/roster"
)

// A gateView is what others see of a loop's gate.
//
// Safe for concurrent use: its loop writes.
type gateView struct {
	shown            atomic.Bool // else there is no gate yet
	limit            atomic.Int64
	baseline, median atomic.Int64  // ns
	waits            atomic.Uint64 // share of the answer time, as a float64's bits
	cuts             [gate.Reasons]atomic.Uint64
	last             atomic.Pointer[[]gate.Cut]
}

// show publishes what the gate knows. Only a cut costs memory.
func (v *gateView) show(l gate.Look) {
	v.limit.Store(int64(l.Limit))
	v.baseline.Store(int64(l.Baseline))
	v.median.Store(int64(l.Median))
	v.waits.Store(math.Float64bits(l.Waiting))
	fell := false
	for why, n := range l.Cuts {
		fell = v.cuts[why].Swap(n) != n || fell
	}
	if fell {
		last := l.Last
		v.last.Store(&last)
	}
	v.shown.Store(true)
}

// A gateSum is what the loops' gates of one target know together.
type gateSum struct {
	limit, least     int // 0: the target was not asked yet
	inFlight         int64
	waiting          int64
	shed             uint64
	baseline, median time.Duration // of the loop where it is longest
	waits            float64       // likewise
	cuts             [gate.Reasons]uint64
}

// gateSum adds up what the loops' gates of one target know.
func (f *Front) gateSum(spec *roster.Target) (g gateSum) {
	for t := range f.sides.of(spec) {
		g.inFlight += t.short.Load()
		g.waiting += t.waiting.Load()
		for class := range t.shed {
			g.shed += t.shed[class].Load()
		}
		v := &t.view
		if !v.shown.Load() {
			continue
		}
		g.limit += int(v.limit.Load())
		g.least += f.cfg.Gate.Min
		g.baseline = max(g.baseline, time.Duration(v.baseline.Load()))
		g.median = max(g.median, time.Duration(v.median.Load()))
		g.waits = max(g.waits, math.Float64frombits(v.waits.Load()))
		for why := range v.cuts {
			g.cuts[why] += v.cuts[why].Load()
		}
	}
	return g
}

// A GateReport is GET /config/gate.
type GateReport struct {
	Mode    string       `json:"mode"`
	Wait    float64      `json:"wait"`          // seconds: for a place, from which it is long, see upstream.Line; 0: nobody waits
	SLO     float64      `json:"slo,omitempty"` // seconds: the 95th percentile that clients expect
	Count   int          `json:"count"`         // of the targets asked for
	Targets []GateStatus `json:"targets"`       // the first of them: those that shed most, then in the order of the list
}

// A GateStatus is what the gates of one target know, over all loops. Times are
// seconds.
type GateStatus struct {
	Number   int               `json:"number"` // as in GET /config/targets
	URL      string            `json:"target"`
	Address  string            `json:"address"`
	Limit    int               `json:"limit"`    // 0: it was not asked yet
	LimitMin int               `json:"limitMin"` // below which it never falls
	InFlight int64             `json:"inFlight"`
	Waiting  int64             `json:"waiting"`
	Shed     uint64            `json:"shed"`
	Baseline float64           `json:"baseline"` // median answer time without a queue; of the loop where it is longest
	Median   float64           `json:"median"`
	Share    float64           `json:"waitingShare"` // of the answer time that is waiting in the target
	Cuts     map[string]uint64 `json:"cuts"`
	Last     []GateCut         `json:"lastCuts"` // of each loop the last few, oldest first
}

// A GateCut is a fall of one loop's limit.
type GateCut struct {
	At       time.Time `json:"at"`
	From     int       `json:"from"`
	To       int       `json:"to"`
	Why      string    `json:"why"`
	Median   float64   `json:"median"`
	Baseline float64   `json:"baseline"`
}

func cutOf(c *gate.Cut) GateCut {
	return GateCut{c.At.UTC(), c.From, c.To, c.Why.String(), c.Median.Seconds(), c.Baseline.Seconds()}
}

// Gates tells how the gates of at most limit targets are: of the one with that URL,
// address or number, or of any when target is empty.
func (f *Front) Gates(target string, limit int) GateReport {
	cfg := &f.cfg.Gate
	r := GateReport{Mode: cfg.Mode.String(), Wait: cfg.Wait.Seconds(), SLO: cfg.SLO.Seconds(), Targets: []GateStatus{}}
	if cfg.Mode == gate.Off {
		return r
	}
	type one struct {
		spec *roster.Target
		sum  gateSum
	}
	var found []one
	for _, spec := range f.Targets.All() {
		if target == "" || target == spec.URL || target == spec.Addr || target == strconv.Itoa(f.Targets.Number(spec)) {
			found = append(found, one{spec, f.gateSum(spec)})
		}
	}
	slices.SortStableFunc(found, func(a, b one) int { return cmp.Compare(b.sum.shed, a.sum.shed) })
	r.Count = len(found)
	for _, o := range found[:min(limit, len(found))] {
		r.Targets = append(r.Targets, f.gateStatus(o.spec, &o.sum))
	}
	return r
}

func (f *Front) gateStatus(spec *roster.Target, g *gateSum) GateStatus {
	st := GateStatus{Number: f.Targets.Number(spec), URL: spec.URL, Address: spec.Addr, Limit: g.limit, LimitMin: g.least,
		InFlight: g.inFlight, Waiting: g.waiting, Shed: g.shed, Baseline: g.baseline.Seconds(), Median: g.median.Seconds(), Share: g.waits,
		Cuts: map[string]uint64{}, Last: []GateCut{}}
	for why, n := range g.cuts {
		st.Cuts[gate.Reason(why).String()] = n
	}
	for t := range f.sides.of(spec) {
		if last := t.view.last.Load(); last != nil {
			for _, c := range *last {
				st.Last = append(st.Last, cutOf(&c))
			}
		}
	}
	slices.SortFunc(st.Last, func(a, b GateCut) int { return a.At.Compare(b.At) })
	return st
}
