package scenario

import (
	"fmt"
	"time"

	"weir/bench/lab/result"
)

// columns are the columns of a scenario's table.
const columns = "algorithm | store | gate | advisor | answered 200 /s | in time /s | refused % | shed % | " +
	"needlessly % | 5xx % | lost % | mean ms | p50 ms | p95 ms | p99 ms | " +
	"target p95 at worst ms | queue at most | overload % of time | recovery s | limiting back after s | generator"

func show(out *result.Report, s *Scenario, runs []*Run) {
	out.Heading("Scenario %s", s.Name)
	out.Note("%s", s.About)
	out.Table(table(runs))
	for _, text := range findings(runs) {
		out.Note("%s", text)
	}
}

func table(runs []*Run) *result.Table {
	t := result.NewTable(columns)
	t.Rows = result.Map(runs, (*Run).cells)
	return t
}

func (r *Run) cells() []string {
	m := &r.Metrics
	percent := func(v float64) string { return fmt.Sprintf("%.1f", 100*v) }
	ms := func(v float64) string { return fmt.Sprintf("%.1f", 1e3*v) }
	advisor := "–"
	if r.Advisor {
		advisor = "on"
	}
	return []string{r.Algorithm, r.Store, onOff(r.Gate), advisor, fmt.Sprintf("%.0f", m.Answered),
		fmt.Sprintf("%.0f", m.Goodput), percent(m.Refused), percent(m.Shed), percent(m.Needless), percent(m.Failed5xx),
		percent(m.Lost),
		ms(m.Latency.Mean), ms(m.Latency.P50), ms(m.Latency.P95), ms(m.Latency.P99), ms(m.TargetP95),
		fmt.Sprintf("%.0f", m.QueueMax), percent(m.Overload),
		after(m.Recovery, m.Peaks > 0), after(m.Resumed, m.Resumed != 0), string(r.Load.Verdict)}
}

func onOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
}

// after formats a time; asked says whether it applies.
func after(d time.Duration, asked bool) string {
	switch {
	case !asked:
		return "–"
	case d < 0:
		return "not within the run"
	}
	return fmt.Sprintf("%.1f", d.Seconds())
}

// overloadBearable bounds the share of the time in which the target is slower than the SLO in a
// run that counts as protected.
const overloadBearable = 0.1

// protected reports whether the limit or the gate protected the target: almost all requests were answered
// or refused, and the target was within its SLO most of the time.
func (r *Run) protected() bool {
	return r.Metrics.Overload <= overloadBearable && r.Metrics.Failed5xx+r.Metrics.Lost < 0.001
}

// findings names the best runs by several figures.
func findings(runs []*Run) (list []string) {
	limited := func(r *Run) bool { return r.Algorithm != "off" || r.Gate }
	safe := func(r *Run) bool { return limited(r) && r.protected() }
	if r := best(runs, safe, func(r *Run) float64 { return -r.Metrics.Goodput }); r != nil {
		list = append(list, fmt.Sprintf(
			"Most answers in time among the runs that protected the target (above its SLO at most %.0f %% of the time, no "+
				"5xx): **%s** with %.0f/s.", 100*overloadBearable, r.label(), r.Metrics.Goodput))
	} else {
		list = append(list, fmt.Sprintf("None protected the target (above its SLO at most %.0f %% of the time, no 5xx).",
			100*overloadBearable))
	}
	if r := best(runs, limited, func(r *Run) float64 { return r.Metrics.Latency.P99 }); r != nil {
		list = append(list, fmt.Sprintf("Lowest p99 of admitted requests: **%s** with %.1f ms.", r.label(),
			1e3*r.Metrics.Latency.P99))
	}
	if r := best(runs, limited, func(r *Run) float64 { return r.Metrics.Needless }); r != nil {
		list = append(list, fmt.Sprintf("Fewest needless refusals: **%s** with %.1f %% of all requests.", r.label(),
			100*r.Metrics.Needless))
	}
	return list
}

// best returns the run with the least figure among those that count; nil if none does.
func best(runs []*Run, counts func(r *Run) bool, figure func(r *Run) float64) (least *Run) {
	for _, r := range runs {
		if counts(r) && (least == nil || figure(r) < figure(least)) {
			least = r
		}
	}
	return least
}

// label returns the name of a run within its scenario.
func (r *Run) label() string {
	text := r.Algorithm
	if r.gateAlone() {
		text = "the gate alone"
	}
	if r.Store != "simulated" {
		text += " (" + r.Store + ")"
	}
	if r.Advisor {
		text += " with advisor"
	}
	return text
}
