package protect

import (
	"cmp"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"weir/bench/lab/result"
	"weir/bench/lab/rig"
	"weir/internal/data/chart"
	"weir/loadgen/record"
)

// report prints a table for each scenario and draws the plot.
func (l *lab) report(scenarios []Scenario) error {
	figures := "Figures are medians of the rounds, with minimum and maximum in brackets. "
	if l.Rounds == 1 {
		figures = "There was one round, so each figure is from a single run. "
	}
	l.out.Note("Real programs in real time on loopback. Arrivals are Poisson, and the same in a round for "+
		"all sides, which take turns. "+
		figures+
		"In time means a 200 within %s of the due time. The ideal is the sum of the lesser of the offered load and the "+
		"target's capacity. "+
		"Needlessly shed are requests answered with 429 or 503 that the target's own queue, with nothing in front of it, "+
		"would have answered in time, according to a replay of the same arrivals with new random service times. "+
		"The target counts as protected, or as recovered, at the start of a second in which %.0f %% of the ideal "+
		"was answered in time. "+
		"The last columns are the lag of the load generator while connections were idle, and its verdict: a p99 above 1 "+
		"ms makes a run DEGRADED, one above 10 ms INVALID; some stalls, or waiting for connections, also make it DEGRADED. "+
		"It shares the cores with the target and the side, so it is late when all are busy. Latency counts from the due "+
		"time, so this affects all sides alike. "+
		"An INVALID run is repeated once, and the second run counts, whatever its verdict. "+
		"HAProxy is configured with the number of the target's workers; failsafe-go and the gate are not. HAProxy's "+
		"settings are those with the best results in the situation half; failsafe-go has its defaults, which are better "+
		"there than with a queue (2 and 3 times the limit).", bounds(scenarios), 100*good)
	if first, last := l.made(scenarios); !first.IsZero() {
		l.out.Note("The runs ended from %s to %s.", first.Format(time.RFC3339), last.Format(time.RFC3339))
	}
	l.out.Head("side", "")
	for _, s := range protections() {
		l.out.Row(s.Name, s.About)
	}
	var missed []string
	for i := range scenarios {
		l.table(&scenarios[i])
		missed = append(missed, l.missed(&scenarios[i])...)
		if scenarios[i].Name == plottedScenario {
			l.draw(&scenarios[i])
		}
	}
	if len(missed) > 0 {
		return fmt.Errorf("missed goals: %s", strings.Join(missed, "; "))
	}
	return nil
}

// bounds returns how fast answers must be in the first scenario, and in those with other bounds.
func bounds(scenarios []Scenario) string {
	text := func(s Scenario) string { return fmt.Sprintf("%d ms", s.InTime.Milliseconds()) }
	var others []string
	for _, s := range scenarios[1:] {
		if s.InTime != scenarios[0].InTime {
			others = append(others, s.Name+": "+text(s))
		}
	}
	if len(others) == 0 {
		return text(scenarios[0])
	}
	return fmt.Sprintf("%s (%s)", text(scenarios[0]), strings.Join(others, ", "))
}

// made returns when the first and the last of the shown runs ended.
func (l *lab) made(scenarios []Scenario) (first, last time.Time) {
	var ends []time.Time
	for i := range scenarios {
		for _, side := range scenarios[i].Sides {
			for _, r := range l.of(&scenarios[i], side) {
				ends = append(ends, r.Ended)
			}
		}
	}
	if len(ends) == 0 {
		return first, last
	}
	return slices.MinFunc(ends, time.Time.Compare), slices.MaxFunc(ends, time.Time.Compare)
}

// missed describes the goals of a scenario that the gate missed.
func (l *lab) missed(s *Scenario) []string {
	runs := l.of(s, "gate")
	if len(runs) == 0 {
		return nil
	}
	var e result.Expectations
	miss := func(held bool, format string, values ...any) { e.Never(!held, s.Name+": "+format, values...) }
	inTime := result.MedianOf(runs, goodput)
	miss(inTime >= s.Goal.InTime, "behind the gate %.3f of the ideal, the goal is %.3g", inTime, s.Goal.InTime)
	p99 := result.MedianOf(runs, func(r Run) float64 { return r.P99 })
	miss(s.Goal.P99 == 0 || p99 <= s.Goal.P99.Seconds(), "p99 behind the gate %.0f ms, the goal is %v", 1e3*p99,
		s.Goal.P99)
	shed := result.MedianOf(runs, func(r Run) float64 { return share(r.Needless, r) })
	miss(s.Goal.Shed == 0 || shed < s.Goal.Shed, "the gate shed %.3g %% needlessly, the goal is less than %.3g %%",
		100*shed, 100*s.Goal.Shed)
	for _, peer := range []string{"haproxy", "failsafe"} {
		if theirs := l.of(s, peer); len(theirs) > 0 && s.Goal.Behind > 0 {
			other := result.MedianOf(theirs, goodput)
			miss(inTime >= other-s.Goal.Behind, "behind the gate %.3f of the ideal, behind %s %.3f", inTime, peer, other)
		}
	}
	return e.Missed()
}

// share returns n as a share of a run's requests.
func share(n int, r Run) float64 { return float64(n) / math.Max(1, float64(r.Requests)) }

// of returns the runs of a side, by round.
func (l *lab) of(s *Scenario, side string) (list []Run) {
	for round := 1; round <= s.Rounds; round++ {
		if r, ok := l.played(s, side, round); ok {
			list = append(list, r)
		}
	}
	return list
}

// table prints the rows of a scenario.
func (l *lab) table(s *Scenario) {
	l.out.Heading("%s: %.0f s", s.Name, s.Length().Seconds())
	l.out.Head("side", "in time ÷ ideal", "p99 of the 200s ms", "shed %", "needlessly shed %",
		"protected after s", "recovered after s", "generator late p99 ms", "generator")
	for _, side := range s.Sides {
		runs := l.of(s, side)
		if len(runs) == 0 {
			continue
		}
		l.out.Row(side,
			ratio(runs), spread(runs, "%.0f", func(r Run) float64 { return 1e3 * r.P99 }),
			spread(runs, "%.3g", func(r Run) float64 { return 100 * share(r.Shed, r) }),
			spread(runs, "%.3g", func(r Run) float64 { return 100 * share(r.Needless, r) }),
			spread(runs, "%.1f", func(r Run) float64 { return after(r.Protected) }),
			spread(runs, "%.1f", func(r Run) float64 { return after(r.Recovered) }),
			spread(runs, "%.1f", func(r Run) float64 { return 1e3 * r.Lag }),
			rig.CountValidities(runs, func(r Run) record.Validity { return r.Verdict }))
	}
	l.out.Note("%s", s.About)
}

// goodput returns the number answered in time relative to the ideal.
func goodput(r Run) float64 { return float64(r.InTime) / math.Max(1, r.Ideal) }

// after returns a span, +Inf if it was not reached, or NaN if it does not apply.
func after(span *float64) float64 {
	switch {
	case span == nil:
		return math.NaN()
	case *span < 0:
		return math.Inf(1)
	}
	return *span
}

// spread formats the median of a figure over runs with minimum and maximum, or the figure of a
// single run.
func spread(runs []Run, format string, figure func(r Run) float64) string {
	s := result.SpreadOf(runs, figure)
	word := func(v float64) string {
		if math.IsInf(v, 1) {
			return "never"
		}
		return fmt.Sprintf(format, v)
	}
	if math.IsNaN(s.Least) {
		return "–"
	}
	if len(runs) == 1 {
		return word(s.Median)
	}
	return fmt.Sprintf("%s (%s … %s)", word(s.Median), word(s.Least), word(s.Most))
}

// ratio formats the goodput of runs.
func ratio(runs []Run) string {
	if len(runs) == 1 {
		return fmt.Sprintf("**%.3f**", goodput(runs[0]))
	}
	return result.SpreadOf(runs, goodput).Ratio(3)
}

// PlotFile is the file of the plot, which shows plottedScenario. In it the target can serve
// the load until it becomes slower. In the first scenario it is overloaded from the start, so
// without the gate nothing is answered in time even before the bad phase.
const (
	PlotFile        = "protect.svg"
	plottedScenario = "varied"
)

// coarse is the number of steps of a course per point of the plot.
const coarse = 5

// contrasts returns the sides in the plot.
func contrasts() []contrast {
	return []contrast{{"none", "without the gate", chart.Red}, {"gate", "with the gate, not configured", chart.Green}}
}

// A contrast is a side in the plot.
type contrast struct {
	side, label string
	color       chart.Color
}

// draw draws the picture of a scenario if all its sides were played.
func (l *lab) draw(s *Scenario) {
	c, all := l.picture(s)
	if !all {
		return
	}
	l.out.Note("%s shows %s with and without the gate, of each the run with the median in time ÷ ideal.", PlotFile, s.Name)
	l.out.Attach(PlotFile)
	rig.Check((&result.Figure{Label: s.Name}).Draw(c, filepath.Join(l.Dir, PlotFile)))
}

// picture returns a plot of the courses of the runs with the median goodput, with and without the
// gate; all says that both were played.
func (l *lab) picture(s *Scenario) (c chart.Chart, all bool) {
	c = chart.Chart{Title: fmt.Sprintf("A target for %.0f requests a second loses half its speed under %.0f a second",
		s.capacity(s.Phases[0]), s.Phases[0].Rate), Width: 1180, Height: 320, Steps: true,
		X: chart.Axis{Unit: chart.Elapsed},
		Y: chart.Axis{Label: fmt.Sprintf("answers a second within %d ms, over time", s.InTime.Milliseconds())}}
	if from, to, ok := s.bad(); ok {
		c.Spans = []chart.Span{{Name: "the target works at half its speed", Color: chart.Amber, From: from.Seconds(),
			To: to.Seconds()}}
	}
	var x, ideal []float64
	points := int(s.Length() / (coarse * step))
	for i := range points {
		at := coarse * step * time.Duration(i)
		x, ideal = append(x, at.Seconds()), append(ideal, s.ideal(s.Phases[s.phase(at)]))
	}
	c.Lines = []chart.Series{{Name: "what can be answered in time", Color: chart.Grey, Dashed: true, X: x, Y: ideal}}
	for _, side := range contrasts() {
		runs := l.of(s, side.side)
		if len(runs) == 0 {
			return c, false
		}
		slices.SortFunc(runs, func(a, b Run) int { return cmp.Compare(goodput(a), goodput(b)) })
		var y []float64
		for i := range points {
			sum := 0
			for _, n := range runs[(len(runs)-1)/2].Course[coarse*i : coarse*(i+1)] {
				sum += n
			}
			y = append(y, float64(sum)/(coarse*step).Seconds())
		}
		c.Lines = append(c.Lines, chart.Series{Name: side.label, Color: side.color, X: x, Y: y})
	}
	return c, true
}
