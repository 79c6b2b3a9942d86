package advisor

import (
	"fmt"
	"io"

	"weir/bench/closedloop"
)

// The acceptance lines.
const (
	lossMax     = 1.0  // % of what a perfect gate answers in time, mean
	overloadMax = 5.0  // seconds of an hour, mean
	lowMax      = 1.0  // % rejected below 85 % of the capacity, mean
	switchesMax = 0    // of the algorithm
	rounding    = 1e-9 // that no line is missed by
)

// A verdict is an acceptance line and what came of it.
type verdict struct {
	Line   string  `json:"line"`
	Value  float64 `json:"value"`
	Bound  float64 `json:"bound"`
	Met    bool    `json:"met"`
	Worst  float64 `json:"worst"`
	Counts int     `json:"scenarios"`
}

// judge holds the advisor against the acceptance lines.
func judge(plays []*played, name string) (list []verdict) {
	add := func(line string, bound float64, of func(p *played, r *closedloop.Result) float64, typical func([]float64) float64) {
		if vs := over(plays, name, of); len(vs) > 0 {
			v := typical(vs)
			list = append(list, verdict{line, v, bound, v <= bound+rounding, vs[len(vs)-1], len(vs)})
		}
	}
	worst := func(vs []float64) float64 { return vs[len(vs)-1] }
	add("mean loss % against the perfect gate", lossMax, loss, mean)
	add("mean overload, seconds of an hour", overloadMax, func(_ *played, r *closedloop.Result) float64 { return perHour(float64(r.Overload), r) }, mean)
	add("mean share % rejected while demand is below 85 % of the capacity", lowMax, func(_ *played, r *closedloop.Result) float64 { return 100 * r.LowShare() }, mean)
	add("most switches of the algorithm within an hour", switchesMax, func(_ *played, r *closedloop.Result) float64 { return float64(r.SwitchesPH) }, worst)
	add("recommendations beyond the proxy's guard rails in any run", 0, func(_ *played, r *closedloop.Result) float64 { return float64(len(r.Violations)) }, worst)
	return list
}

func printVerdicts(out io.Writer, list []verdict) {
	fmt.Fprint(out, "\n### Acceptance\n\n")
	head(out, "line", "found", "allowed", "worst", "scenarios", "verdict")
	for _, v := range list {
		word := "met"
		if !v.Met {
			word = "**not met**"
		}
		row(out, v.Line, fmt.Sprintf("%.2f", v.Value), fmt.Sprintf("%.2f", v.Bound), fmt.Sprintf("%.2f", v.Worst), fmt.Sprint(v.Counts), word)
	}
}
