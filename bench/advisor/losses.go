package advisor

import (
	"cmp"
	"io"
	"slices"

	"weir/bench/report"
)

// lossesShown bounds the table of losses.
const lossesShown = 12

// printLosses prints the scenarios in which the advisor loses most against the perfect
// gate, and the best of the other contestants there.
func (f *field) printLosses(out io.Writer) {
	t := report.NewTable("scenario | loss % | overload s/h | below need % | above capacity % | rejected needlessly % | who did best | its loss %")
	sorted := slices.Clone(f.plays)
	worst := func(p *played) float64 { return loss(p, p.results[advisorName]) }
	slices.SortStableFunc(sorted, func(a, b *played) int { return cmp.Compare(worst(b), worst(a)) })
	for _, p := range sorted[:min(lossesShown, len(sorted))] {
		r := p.results[advisorName]
		best := p.best(f.names)
		t.Add("%s | %.1f | %.0f | %.1f | %.1f | %.2f | %s | %.1f", p.Name, worst(p), perHour(float64(r.Overload), r), 100*r.BelowNeed,
			100*r.AboveCapacity, 100*r.NeedlessShare(), best, loss(p, p.results[best]))
	}
	printTable(out, "Where the advisor loses most", t)
}

// best returns the contestant with the most goodput, except for the advisor and the perfect
// gate.
func (p *played) best(names []string) (best string) {
	for _, name := range names {
		if name == perfectName || name == advisorName || p.results[name] == nil {
			continue
		}
		if best == "" || p.results[name].Good > p.results[best].Good {
			best = name
		}
	}
	return best
}
