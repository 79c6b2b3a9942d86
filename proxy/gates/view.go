package gates

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

// A View is what others see of a loop's gate for one target.
//
// Safe for concurrent use: every field is one atomic word, which the loop writes.
type View struct {
	InFlight atomic.Int64              // without tunnels and streams
	Waiting  atomic.Int64              // exchanges that were to go there, and wait for a place at any target
	Shed     [ClassesMax]atomic.Uint64 // by class: exchanges that waited for a place in vain

	shown            atomic.Bool // else there is no gate yet
	limit            atomic.Int64
	baseline, median atomic.Int64  // ns
	waits            atomic.Uint64 // share of the answer time, as a float64's bits
	cuts             [gate.Reasons]atomic.Uint64
	last             atomic.Pointer[[]gate.Cut]
}

// Limit is how many exchanges the gate lets be in flight; 0: there is none yet.
func (v *View) Limit() int64 { return v.limit.Load() }

// Show publishes what the gate knows. Only a cut costs memory.
func (v *View) Show(l gate.Look) {
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

// A sum is what the loops' gates of one target know together.
type sum struct {
	limit, least     int // 0: the target was not asked yet
	inFlight         int64
	waiting          int64
	shed             uint64
	baseline, median time.Duration // of the loop where it is longest
	waits            float64       // likewise
	cuts             [gate.Reasons]uint64
}

// sum adds up what the loops' gates of one target know.
func (g *Gates) sum(spec *roster.Target) (all sum) {
	for v := range g.cfg.Views(spec) {
		all.inFlight += v.InFlight.Load()
		all.waiting += v.Waiting.Load()
		for class := range v.Shed {
			all.shed += v.Shed[class].Load()
		}
		if !v.shown.Load() {
			continue
		}
		all.limit += int(v.limit.Load())
		all.least += g.cfg.Min
		all.baseline = max(all.baseline, time.Duration(v.baseline.Load()))
		all.median = max(all.median, time.Duration(v.median.Load()))
		all.waits = max(all.waits, math.Float64frombits(v.waits.Load()))
		for why := range v.cuts {
			all.cuts[why] += v.cuts[why].Load()
		}
	}
	return all
}

// A Report is GET /config/gate.
type Report struct {
	Mode    string   `json:"mode"`
	Wait    float64  `json:"wait"`          // seconds: for a place, from which it is long, see upstream.Line; 0: nobody waits
	SLO     float64  `json:"slo,omitempty"` // seconds: the 95th percentile that clients expect
	Count   int      `json:"count"`         // of the targets asked for
	Targets []Status `json:"targets"`       // the first of them: those that shed most, then in the order of the list
}

// A Status is what the gates of one target know, over all loops. Times are
// seconds.
type Status struct {
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
	Last     []Cut             `json:"lastCuts"` // of each loop the last few, oldest first
}

// A Cut is a fall of one loop's limit.
type Cut struct {
	At       time.Time `json:"at"`
	From     int       `json:"from"`
	To       int       `json:"to"`
	Why      string    `json:"why"`
	Median   float64   `json:"median"`
	Baseline float64   `json:"baseline"`
}

// CutOf returns a cut in its JSON form.
func CutOf(c *gate.Cut) Cut {
	return Cut{c.At.UTC(), c.From, c.To, c.Why.String(), c.Median.Seconds(), c.Baseline.Seconds()}
}

// Report tells how the gates of at most limit targets are: of the one with that URL,
// address or number, or of any when target is empty.
func (g *Gates) Report(target string, limit int) Report {
	r := Report{Mode: g.cfg.Mode.String(), Wait: g.cfg.Wait.Seconds(), SLO: g.cfg.SLO.Seconds(), Targets: []Status{}}
	if g.cfg.Mode == gate.Off {
		return r
	}
	type one struct {
		spec *roster.Target
		sum  sum
	}
	var found []one
	for _, spec := range g.cfg.Targets.All() {
		if target == "" || target == spec.URL || target == spec.Addr || target == strconv.Itoa(g.cfg.Targets.Number(spec)) {
			found = append(found, one{spec, g.sum(spec)})
		}
	}
	slices.SortStableFunc(found, func(a, b one) int { return cmp.Compare(b.sum.shed, a.sum.shed) })
	r.Count = len(found)
	for _, o := range found[:min(limit, len(found))] {
		r.Targets = append(r.Targets, g.status(o.spec, &o.sum))
	}
	return r
}

func (g *Gates) status(spec *roster.Target, all *sum) Status {
	st := Status{Number: g.cfg.Targets.Number(spec), URL: spec.URL, Address: spec.Addr, Limit: all.limit, LimitMin: all.least,
		InFlight: all.inFlight, Waiting: all.waiting, Shed: all.shed, Baseline: all.baseline.Seconds(), Median: all.median.Seconds(), Share: all.waits,
		Cuts: map[string]uint64{}, Last: []Cut{}}
	for why, n := range all.cuts {
		st.Cuts[gate.Reason(why).String()] = n
	}
	for v := range g.cfg.Views(spec) {
		if last := v.last.Load(); last != nil {
			for _, c := range *last {
				st.Last = append(st.Last, CutOf(&c))
			}
		}
	}
	slices.SortFunc(st.Last, func(a, b Cut) int { return a.At.Compare(b.At) })
	return st
}
