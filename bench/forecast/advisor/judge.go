package advisor

import (
	"fmt"

	"weir/bench/forecast/closedloop"
	"weir/bench/lab/result"
)

// The bounds that the advisor should meet.
const (
	lossMax     = 1.0  // % of what a perfect gate answers in time, mean
	overloadMax = 5.0  // seconds of an hour, mean
	lowMax      = 1.0  // % rejected below 85 % of the capacity, more than the perfect gate, mean
	rounding    = 1e-9 // tolerance for rounding errors
)

// seedsLeast is how many seeds of each scenario a verdict needs. The least and the most of
// n seeds enclose the median of all seeds with probability 1 - 2^(1-n): 94 % for 5.
const seedsLeast = 5

// A verdict compares a figure over all scenarios with its bound.
type verdict struct {
	Line               string
	Value, Least, Most float64 // median, least and most of the seeds
	Bound              float64
	Word               string
	Worst              float64 // of all runs
	Counts, Seeds      int
}

// word returns the verdict. With few seeds there is none, and if the bound lies between the
// seeds it is open.
func (v *verdict) word() string {
	switch {
	case v.Seeds < seedsLeast:
		return fmt.Sprintf("none: seeds of each scenario: %d", v.Seeds)
	case v.Most <= v.Bound+rounding:
		return "met"
	case v.Least > v.Bound+rounding:
		return "**not met**"
	}
	return "open"
}

// judge compares a strategy with the bounds.
func (f *field) judge(name string) (list []verdict) {
	add := func(line string, bound float64, of func(p *played, r *closedloop.Result) float64,
		typical func([]float64) float64) {
		all, by := f.over(name, of), f.bySeed(name, of, typical)
		if len(by) == 0 {
			return
		}
		v := verdict{Line: line, Value: result.Median(by), Least: by[0], Most: by[len(by)-1], Bound: bound,
			Worst: all[len(all)-1], Counts: len(all), Seeds: len(by)}
		v.Word = v.word()
		list = append(list, v)
	}
	worst := func(vs []float64) float64 { return vs[len(vs)-1] }
	add("mean loss % against the perfect gate", lossMax, loss, result.Mean)
	add("mean overload, seconds of an hour", overloadMax,
		func(_ *played, r *closedloop.Result) float64 { return perHour(float64(r.Overload), r) }, result.Mean)
	add("mean share % rejected while demand is below 85 % of the capacity, more than by the perfect gate", lowMax,
		func(p *played, r *closedloop.Result) float64 {
			return 100 * (r.LowShare() - p.results[perfectName].LowShare())
		}, result.Mean)
	add("recommendations beyond the proxy's guard rails in any run", 0,
		func(_ *played, r *closedloop.Result) float64 { return float64(len(r.Violations)) }, worst)
	return list
}

func printVerdicts(out *result.Report, list []verdict) {
	t := result.NewTable("line | found | least … most of the seeds | allowed | worst run | runs | verdict")
	for _, v := range list {
		interval := "–"
		if v.Seeds >= seedsLeast {
			interval = fmt.Sprintf("%.2f … %.2f", v.Least, v.Most)
		}
		t.Add("%s | %.2f | %s | %.2f | %.2f | %d | %s", v.Line, v.Value, interval, v.Bound, v.Worst, v.Counts, v.Word)
	}
	printTable(out, "Acceptance", t)
	out.Note("Found is the median of the seeds, each over all scenarios. A verdict takes %d seeds of each scenario, whose "+
		"least and most enclose the median of all seeds with 94 %%; it is open while the bound lies between them.",
		seedsLeast)
}
