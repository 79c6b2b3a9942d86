package scenario

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"

	"weir/bench/lab/result"
	"weir/bench/lab/rig"
	"weir/internal/data/chart"
)

// about explains the figures on the page.
var about = []string{`The limit is 1,000 requests per second, the target can do 1,500 (15 workers, 10 ms each, exponential), and its answers are good up to 50 ms at the 95th percentile.
“In time” is within 100 ms of when the request was due; “needlessly” is what was refused or shed although the target had room; “overload” the share of the time in which the target was slower than that.
Each row is a single run.
With the advisor on, the limit moves: it knows the capacity, and has seen the scenario for a day.`}

// newChapter draws the runs of a scenario. Each run's first plot is written to a
// file of its own as well, whose name is returned.
func newChapter(s *Scenario, runs []*Run, dir string) (c result.Chapter, files []string) {
	c = result.Chapter{Name: s.Name, About: s.About, Tables: []result.Table{*table(runs)}, Findings: findings(runs)}
	for _, r := range runs {
		f := result.Figure{ID: r.String(), Label: r.label()}
		file := "scenario-" + r.String() + ".svg"
		files = append(files, file)
		for i, plot := range r.plots(s) {
			path := ""
			if i == 0 {
				path = filepath.Join(dir, file)
			}
			rig.Check(f.Draw(plot, path))
		}
		c.Figures = append(c.Figures, f)
	}
	return c, files
}

// plots returns the plots of a run: the rates at the proxy, and the target's answer times and
// queue.
func (r *Run) plots(s *Scenario) []chart.Chart {
	column := func(of func(s Sample) float64) []float64 { return result.Map(r.Samples, of) }
	x := column(func(s Sample) float64 { return s.At.Seconds() })
	axis := chart.Axis{Unit: chart.Elapsed, Label: r.clock(s)}
	forwarded := column(func(s Sample) float64 { return s.Forwarded })
	rates := chart.Chart{Title: "Requests per second: " + r.label(), X: axis, Y: chart.Axis{Label: "requests/s"},
		Spans: r.spans(),
		Stack: []chart.Series{
			{Name: "admitted", Color: chart.Green, X: x, Y: forwarded},
			{Name: "refused", Color: chart.Red, X: x, Y: column(func(s Sample) float64 { return s.Rejected })},
			{Name: "shed by the gate", Color: chart.Violet, X: x, Y: column(func(s Sample) float64 { return s.Shed })}},
		Limits: []chart.Limit{{Name: "the target's capacity", Color: chart.Grey, Y: capacity}}}
	rates.Lines = appendSeen(rates.Lines, chart.Series{Name: "limit", Color: chart.Amber, X: x,
		Y: column(func(s Sample) float64 { return s.Limit })})
	rates.Lines = appendSeen(rates.Lines, chart.Series{Name: "the advisor's forecast", Color: chart.Violet,
		Dashed: true, X: x, Y: column(func(s Sample) float64 { return s.Forecast })})
	times := chart.Chart{Title: "The target's answer time, p95", X: axis,
		Y: chart.Axis{Label: "p95", Unit: chart.Seconds, Scale: chart.Log}, Spans: r.spans(),
		Lines:  []chart.Series{{Color: chart.Blue, X: x, Y: column(func(s Sample) float64 { return orGap(s.TargetP95) })}},
		Limits: []chart.Limit{{Name: "SLO", Color: chart.Amber, Y: slo.Seconds()}}}
	queue := chart.Chart{Title: "Waiting in the target", X: axis, Y: chart.Axis{Label: "requests"}, Spans: r.spans(),
		Lines: []chart.Series{{Color: chart.Blue, X: x, Y: column(func(s Sample) float64 { return s.Queue })}}}
	rates.Width, rates.Height = 1180, 300
	times.Width, queue.Width = 580, 580
	return []chart.Chart{rates, times, queue}
}

// clock describes the compression of the time axis.
func (r *Run) clock(s *Scenario) string {
	switch {
	case s.Real:
		return ""
	case r.Compress >= 120:
		return fmt.Sprintf("one second is %.3g minutes of the scenario", r.Compress/60)
	}
	return fmt.Sprintf("one second is %.3g seconds of the scenario", r.Compress)
}

// appendSeen appends a series unless all of its values are NaN.
func appendSeen(list []chart.Series, s chart.Series) []chart.Series {
	if slices.ContainsFunc(s.Y, func(v float64) bool { return !math.IsNaN(v) }) {
		list = append(list, s)
	}
	return list
}

// orGap turns zero, which was not measured, into a gap.
func orGap(v float64) float64 {
	if v == 0 {
		return math.NaN()
	}
	return v
}

func (r *Run) spans() (list []chart.Span) {
	kinds := map[string]struct {
		end   string
		color chart.Color
	}{killStore: {restartStore, chart.Red}, freezeStore: {thawStore, chart.Blue},
		slowTarget: {healTarget, chart.Amber}, killAdvisor: {"", chart.Grey}}
	for i, t := range r.Events {
		kind, opens := kinds[t.Name]
		if !opens || t.Name == killAdvisor && !r.Advisor || r.Store != "redis" &&
			(t.Name == killStore || t.Name == freezeStore) {
			continue
		}
		to := r.Samples[len(r.Samples)-1].At
		if n := slices.IndexFunc(r.Events[i:], func(other FaultEvent) bool { return other.Name == kind.end }); n >= 0 {
			to = r.Events[i+n].At
		}
		list = append(list, chart.Span{Name: t.Name, Color: kind.color, From: t.At.Seconds(), To: to.Seconds()})
	}
	return list
}
