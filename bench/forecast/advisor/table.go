package advisor

import (
	"cmp"
	"fmt"
	"slices"

	"weir/bench/forecast/closedloop"
	"weir/bench/lab/result"
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
	worst  bool // also show the maximum
}

func perHour(v float64, r *closedloop.Result) float64 { return v * 3600 / float64(max(1, r.Seconds)) }

// loss returns how many fewer requests were answered in time than with the perfect gate, in
// percent.
func loss(p *played, r *closedloop.Result) float64 {
	return 100 * r.Regret(p.results[perfectName])
}

// served are the columns about answers and the target's queue. Shares are in percent.
var served = []measure{
	{"loss %", 1, loss, true},
	{"overload s/h", 0, func(_ *played, r *closedloop.Result) float64 { return perHour(float64(r.Overload), r) }, true},
	{"queue area s²/h", 0, func(_ *played, r *closedloop.Result) float64 { return perHour(r.QueueArea, r) }, false},
	{"p95 ms", 0, func(_ *played, r *closedloop.Result) float64 { return 1000 * r.P95 }, true},
	{"p99 ms", 0, func(_ *played, r *closedloop.Result) float64 { return 1000 * r.P99 }, false},
	{"5xx %", 2, func(_ *played, r *closedloop.Result) float64 { return 100 * r.ErrorShare() }, true},
	{"needless %", 2, func(_ *played, r *closedloop.Result) float64 { return 100 * r.NeedlessShare() }, true},
	{"needless % below 85 %", 2, func(_ *played, r *closedloop.Result) float64 { return 100 * r.LowShare() }, true},
	{"missed %", 2, func(_ *played, r *closedloop.Result) float64 { return 100 * r.MissedShare() }, true},
}

// moved are the columns about the limit.
var moved = []measure{
	{"limit below need %", 1, func(_ *played, r *closedloop.Result) float64 { return 100 * r.BelowNeed }, false},
	{"of the time", 0, func(_ *played, r *closedloop.Result) float64 { return 100 * r.BelowNeedTime }, false},
	{"above capacity %", 1, func(_ *played, r *closedloop.Result) float64 { return 100 * r.AboveCapacity }, false},
	{"of the time", 0, func(_ *played, r *closedloop.Result) float64 { return 100 * r.AboveCapacityTime }, false},
	{"updates/h", 0, func(_ *played, r *closedloop.Result) float64 { return perHour(float64(r.Updates), r) }, false},
	{"Σ abs(Δ ln limit)/h", 1, func(_ *played, r *closedloop.Result) float64 { return perHour(r.Variation, r) }, false},
	{"violations", 0, func(_ *played, r *closedloop.Result) float64 { return float64(len(r.Violations)) }, true},
	{"recovery s", 0, func(_ *played, r *closedloop.Result) float64 { return r.Recovery }, true},
}

// A field has the played scenarios and the strategies.
type field struct {
	plays      []*played
	strategies []closedloop.Strategy
}

// over returns a measure of a strategy over the scenarios, sorted.
func (f *field) over(name string, of func(p *played, r *closedloop.Result) float64) (vs []float64) {
	for _, p := range f.plays {
		if r := p.results[name]; r != nil {
			vs = append(vs, of(p, r))
		}
	}
	slices.Sort(vs)
	return vs
}

// parts groups the scenarios by a key. order has the keys, events in the order of the list.
func (f *field) parts(of func(*played) string) (parts map[string]*field, order []string) {
	parts = make(map[string]*field)
	for _, p := range f.plays {
		key := of(p)
		if parts[key] == nil {
			parts[key] = &field{strategies: f.strategies}
			order = append(order, key)
		}
		parts[key].plays = append(parts[key].plays, p)
	}
	slices.SortStableFunc(order, func(a, b string) int { return cmp.Compare(rank(a), rank(b)) })
	return parts, order
}

// bySeed returns a typical value of a measure over the scenarios, for each seed with which
// all of them were played, sorted.
func (f *field) bySeed(name string, of func(p *played, r *closedloop.Result) float64,
	typical func([]float64) float64) (vs []float64) {
	worlds, _ := f.parts(func(p *played) string { return p.Trace + "/" + p.Event })
	seeds := len(f.plays)
	for _, w := range worlds {
		seeds = min(seeds, len(w.plays))
	}
	for i := range seeds {
		same := field{}
		for _, w := range worlds {
			same.plays = append(same.plays, w.plays[i])
		}
		if list := same.over(name, of); len(list) > 0 {
			vs = append(vs, typical(list))
		}
	}
	slices.Sort(vs)
	return vs
}

// print prints a row for each strategy, with a cell for each column.
func (f *field) print(out *result.Report, columns []string, cell func(name string, column int) string) {
	out.Head(append([]string{"who chooses the limit"}, columns...)...)
	for _, c := range f.strategies {
		cells := []string{c.Name}
		for i := range columns {
			cells = append(cells, cell(c.Name, i))
		}
		out.Row(cells...)
	}
}

// printAll prints measures of every strategy: the mean, and the worst.
func (f *field) printAll(out *result.Report, title string, measures []measure) {
	out.Heading("%s: %d runs, mean (worst)", title, len(f.plays))
	columns := result.Map(measures, func(m measure) string { return m.name })
	f.print(out, columns, func(name string, column int) string {
		m := &measures[column]
		vs := f.over(name, m.of)
		cell := fmt.Sprintf("%.*f", m.digits, result.Mean(vs))
		if m.worst && len(vs) > 0 {
			cell += fmt.Sprintf(" (%.*f)", m.digits, vs[len(vs)-1])
		}
		return cell
	})
}

// printBy prints the loss against the perfect gate by group: median and mean, and with
// enough seeds the least and the most of the seeds' means.
func (f *field) printBy(out *result.Report, title string, part func(*played) string) {
	out.Heading("Loss %% against the perfect gate by %s: median / mean (least … most of the seeds' means)", title)
	parts, order := f.parts(part)
	columns := result.Map(order, func(key string) string { return fmt.Sprintf("%s (%d)", key, len(parts[key].plays)) })
	f.print(out, columns, func(name string, column int) string {
		p := parts[order[column]]
		vs := p.over(name, loss)
		cell := fmt.Sprintf("%.1f / %.1f", result.Median(vs), result.Mean(vs))
		if by := p.bySeed(name, loss, result.Mean); len(by) >= seedsLeast {
			cell += fmt.Sprintf(" (%.1f … %.1f)", by[0], by[len(by)-1])
		}
		return cell
	})
}

// rank returns the index of an event in the list. Other names keep their order.
func rank(name string) int {
	return max(0, slices.IndexFunc(events, func(e event) bool { return e.name == name }))
}

// lossesShown bounds the table of losses.
const lossesShown = 12

// printLosses prints the scenarios in which the advisor loses most against the perfect
// gate, and the best of the other strategies there.
func (f *field) printLosses(out *result.Report) {
	t := result.NewTable("scenario | loss % | overload s/h | below need % | above capacity % | rejected needlessly % | " +
		"who did best | its loss %")
	sorted := slices.Clone(f.plays)
	worst := func(p *played) float64 { return loss(p, p.results[advisorName]) }
	slices.SortStableFunc(sorted, func(a, b *played) int { return cmp.Compare(worst(b), worst(a)) })
	for _, p := range sorted[:min(lossesShown, len(sorted))] {
		r := p.results[advisorName]
		best := p.best(f.strategies)
		t.Add("%s | %.1f | %.0f | %.1f | %.1f | %.2f | %s | %.1f", p.Name, worst(p), perHour(float64(r.Overload), r),
			100*r.BelowNeed,
			100*r.AboveCapacity, 100*r.NeedlessShare(), best, loss(p, p.results[best]))
	}
	printTable(out, "Where the advisor loses most", t)
}

// best returns the strategy with the most goodput, except for the advisor and the perfect
// gate.
func (p *played) best(strategies []closedloop.Strategy) (best string) {
	for _, c := range strategies {
		switch r := p.results[c.Name]; {
		case c.Name == perfectName || c.Name == advisorName || r == nil:
		case best == "" || r.Good > p.results[best].Good:
			best = c.Name
		}
	}
	return best
}
