package advisor

import (
	"fmt"
	"io"

	"weir/bench/closedloop"
)

// The acceptance lines.
const (
	knownMax    = 3.0  // % of regret against the delayed oracle, capacity known
	unknownMax  = 7.0  // % unknown
	aimdShare   = 0.5  // of AIMD's loss against the oracle
	lowMax      = 1.0  // % rejected below 85 % of the capacity
	overloadMax = 36.0 // seconds of an hour, 1 %, while the capacity is constant
	switchesMax = 6    // within an hour
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

func eventOf(p *played) *event {
	for i := range events {
		if events[i].name == p.Event {
			return &events[i]
		}
	}
	return &event{}
}

func where(plays []*played, fits func(*played) bool) (some []*played) {
	for _, p := range plays {
		if fits(p) {
			some = append(some, p)
		}
	}
	return some
}

// judge holds the advisor against the acceptance lines.
func judge(plays []*played, name string) (list []verdict) {
	add := func(line string, plays []*played, bound float64, of func(p *played, r *closedloop.Result) float64, typical func([]float64) float64) {
		vs := over(plays, name, of)
		if len(vs) > 0 {
			v := typical(vs)
			list = append(list, verdict{line, v, bound, v <= bound+rounding, vs[len(vs)-1], len(vs)})
		}
	}
	worst := func(vs []float64) float64 { return vs[len(vs)-1] }
	constant := func(p *played) bool { return len(p.Target.Stages) == 0 }
	known := where(plays, func(p *played) bool { return eventOf(p).known })
	unknown := where(plays, func(p *played) bool { return constant(p) && !eventOf(p).known })
	add("median regret % against the delayed oracle, capacity known", known, knownMax, regret(delayedName), median)
	add("median regret % against the delayed oracle, capacity unknown", unknown, unknownMax, regret(delayedName), median)
	list = append(list, againstAIMD(plays, name)...)
	add("median share % rejected while demand is below 85 % of the capacity", plays, lowMax, func(_ *played, r *closedloop.Result) float64 { return 100 * r.LowShare() }, median)
	add("median overload, seconds of an hour, capacity constant", where(plays, constant), overloadMax, func(_ *played, r *closedloop.Result) float64 { return perHour(float64(r.Overload), r) }, median)
	add("median overload seconds beyond the delayed oracle's, in snapshots, capacity changes", where(plays, func(p *played) bool { return !constant(p) }), 2*2, excess, median)
	add("most switches of the algorithm within an hour", plays, switchesMax, func(_ *played, r *closedloop.Result) float64 { return float64(r.SwitchesPH) }, worst)
	add("violations of the guard rails in any run", plays, 0, func(_ *played, r *closedloop.Result) float64 { return float64(len(r.Violations)) }, worst)
	return list
}

// excess is how many snapshots longer than under the delayed oracle the target is
// overloaded; each scenario has two changes of the capacity or fewer.
func excess(p *played, r *closedloop.Result) float64 {
	return float64(r.Overload-p.results[delayedName].Overload) / p.Cycle.Seconds()
}

// againstAIMD holds the mean loss against the oracle to half of what AIMD loses: as
// it comes, and as it is when it was told how long an answer may take.
func againstAIMD(plays []*played, name string) (list []verdict) {
	for _, rival := range []string{"AIMD", "AIMD, told the SLO"} {
		mine := over(plays, name, regret(oracleName))
		theirs := over(plays, rival, regret(oracleName))
		if len(mine) == 0 || len(theirs) == 0 {
			continue
		}
		bound := aimdShare * mean(theirs)
		list = append(list, verdict{fmt.Sprintf("mean loss %% against the oracle; allowed is half of that of %s", rival),
			mean(mine), bound, mean(mine) <= bound+rounding, mine[len(mine)-1], len(mine)})
	}
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
