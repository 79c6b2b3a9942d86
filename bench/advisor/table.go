package advisor

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"

	"weir/bench/closedloop"
	"weir/bench/report"
)

const (
	perfectName = closedloop.PerfectName
	advisorName = closedloop.AdvisorName
)

// A measure is a column of the table.
type measure struct {
	name   string
	digits int
	of     func(p *played, r *closedloop.Result) float64
	least  bool // the worst is the least; otherwise the most
	worst  bool // it is shown
}

func perHour(v float64, r *closedloop.Result) float64 { return v * 3600 / float64(max(1, r.Seconds)) }

// loss is how much fewer requests are answered in time than by a perfect gate, in
// percent.
func loss(p *played, r *closedloop.Result) float64 {
	return 100 * r.Regret(p.results[perfectName])
}

// served are the columns about what clients and the target felt. Shares are in
// percent.
var served = []measure{
	{"loss %", 1, loss, false, true},
	{"overload s/h", 0, func(_ *played, r *closedloop.Result) float64 { return perHour(float64(r.Overload), r) }, false, true},
	{"queue area s²/h", 0, func(_ *played, r *closedloop.Result) float64 { return perHour(r.QueueArea, r) }, false, false},
	{"p95 ms", 0, func(_ *played, r *closedloop.Result) float64 { return 1000 * r.P95 }, false, true},
	{"p99 ms", 0, func(_ *played, r *closedloop.Result) float64 { return 1000 * r.P99 }, false, false},
	{"5xx %", 2, func(_ *played, r *closedloop.Result) float64 { return 100 * r.ErrorShare() }, false, true},
	{"needless %", 2, func(_ *played, r *closedloop.Result) float64 { return 100 * r.NeedlessShare() }, false, true},
	{"needless % below 85 %", 2, func(_ *played, r *closedloop.Result) float64 { return 100 * r.LowShare() }, false, true},
	{"missed %", 2, func(_ *played, r *closedloop.Result) float64 { return 100 * r.MissedShare() }, false, true},
}

// moved are the columns about how the limit moved.
var moved = []measure{
	{"limit below need %", 1, func(_ *played, r *closedloop.Result) float64 { return 100 * r.BelowNeed }, false, false},
	{"of the time", 0, func(_ *played, r *closedloop.Result) float64 { return 100 * r.BelowNeedTime }, false, false},
	{"above capacity %", 1, func(_ *played, r *closedloop.Result) float64 { return 100 * r.AboveCapacity }, false, false},
	{"of the time", 0, func(_ *played, r *closedloop.Result) float64 { return 100 * r.AboveCapacityTime }, false, false},
	{"updates/h", 0, func(_ *played, r *closedloop.Result) float64 { return perHour(float64(r.Updates), r) }, false, false},
	{"Σ abs(Δ ln limit)/h", 1, func(_ *played, r *closedloop.Result) float64 { return perHour(r.Variation, r) }, false, false},
	{"switches/h at most", 0, func(_ *played, r *closedloop.Result) float64 { return float64(r.SwitchesPH) }, false, true},
	{"violations", 0, func(_ *played, r *closedloop.Result) float64 { return float64(len(r.Violations)) }, false, true},
	{"recovery s", 0, func(_ *played, r *closedloop.Result) float64 { return r.Recovery }, false, true},
}

// over returns a measure of a contestant over scenarios, sorted.
func over(plays []*played, name string, of func(p *played, r *closedloop.Result) float64) (vs []float64) {
	for _, p := range plays {
		if r := p.results[name]; r != nil {
			if v := of(p, r); !math.IsNaN(v) {
				vs = append(vs, v)
			}
		}
	}
	slices.Sort(vs)
	return vs
}

// bySeed returns what is typical of a measure over the scenarios, for each seed that
// all of them were played with, sorted.
func bySeed(plays []*played, name string, of func(p *played, r *closedloop.Result) float64, typical func([]float64) float64) (vs []float64) {
	worlds := make(map[string][]*played)
	seeds := len(plays)
	for _, p := range plays {
		worlds[p.Trace+"/"+p.Event] = append(worlds[p.Trace+"/"+p.Event], p)
	}
	for _, w := range worlds {
		seeds = min(seeds, len(w))
	}
	for i := range seeds {
		var same []*played
		for _, w := range worlds {
			same = append(same, w[i])
		}
		if list := over(same, name, of); len(list) > 0 {
			vs = append(vs, typical(list))
		}
	}
	slices.Sort(vs)
	return vs
}

// printAll prints measures of every contestant: the mean, and the worst.
func printAll(out io.Writer, title string, measures []measure, plays []*played, names []string) {
	fmt.Fprintf(out, "\n### %s: %d runs, mean (worst)\n\n", title, len(plays))
	columns := []string{"who chooses the limit"}
	for _, m := range measures {
		columns = append(columns, m.name)
	}
	report.Head(out, columns...)
	for _, name := range names {
		cells := []string{name}
		for _, m := range measures {
			vs := over(plays, name, m.of)
			if len(vs) == 0 {
				cells = append(cells, "–")
				continue
			}
			worst := vs[len(vs)-1]
			if m.least {
				worst = vs[0]
			}
			cell := fmt.Sprintf("%.*f", m.digits, report.Mean(vs))
			if m.worst {
				cell += fmt.Sprintf(" (%.*f)", m.digits, worst)
			}
			cells = append(cells, cell)
		}
		report.Row(out, cells...)
	}
}

// printBy prints the loss against the perfect gate in the parts that a scenario
// belongs to: the median and the mean, and with enough seeds the least and the most
// of the seeds' means.
func printBy(out io.Writer, title string, plays []*played, names []string, part func(*played) string) {
	fmt.Fprintf(out, "\n### Loss %% against the perfect gate by %s: median / mean (least … most of the seeds' means)\n\n", title)
	parts := make(map[string][]*played)
	var order []string
	for _, p := range plays {
		key := part(p)
		if parts[key] == nil {
			order = append(order, key)
		}
		parts[key] = append(parts[key], p)
	}
	slices.SortFunc(order, func(a, b string) int { return cmp.Compare(rank(a), rank(b)) })
	columns := []string{"who chooses the limit"}
	for _, key := range order {
		columns = append(columns, fmt.Sprintf("%s (%d)", key, len(parts[key])))
	}
	report.Head(out, columns...)
	for _, name := range names {
		cells := []string{name}
		for _, key := range order {
			vs := over(parts[key], name, loss)
			cell := fmt.Sprintf("%.1f / %.1f", report.Median(vs), report.Mean(vs))
			if by := bySeed(parts[key], name, loss, report.Mean); len(by) >= seedsLeast {
				cell += fmt.Sprintf(" (%.1f … %.1f)", by[0], by[len(by)-1])
			}
			cells = append(cells, cell)
		}
		report.Row(out, cells...)
	}
}

// rank is where an event stands in the list of events; others stay in the order
// in which they come.
func rank(name string) int {
	for i := range events {
		if events[i].name == name {
			return i
		}
	}
	return 0
}
