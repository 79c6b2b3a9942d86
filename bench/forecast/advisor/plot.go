package advisor

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"

	"weir/bench/forecast/closedloop"
	"weir/bench/lab/result"
	"weir/bench/lab/rig"
	"weir/internal/data/chart"
)

// about explains the figures on the page.
var about = []string{`Virtual time: recorded traffic scaled to a target with 8 or 64 workers (log-normal, 50 ms on average), clients that come again, snapshots every 30 or 60 seconds of which some are lost.
An answer is good within three times the 95th percentile without a queue. “Loss” is the share of them that is missing beside a perfect gate, which sees the target's queue and lets a request in when its turn comes within half of that time.`}

// draw plays the first scenario of each event once more with c, and writes plots of it.
func draw(plays []*played, c closedloop.Strategy, dir string) (list []result.Figure) {
	seen := make(map[string]bool)
	for _, p := range plays {
		if seen[p.Event] {
			continue
		}
		seen[p.Event] = true
		s := *p.Scenario
		s.Record = true
		rig.Section(s.Name, func() {
			r := rig.Must(closedloop.Run(&s, c.New(&s)))
			d := result.Figure{Label: s.Name,
				Note: fmt.Sprintf("%.1f %% of what a perfect gate answers in time; overload %d s of %d", 100-loss(p, r),
					r.Overload, r.Seconds)}
			for i, plot := range plots(&s, r) {
				name := fmt.Sprintf("%d-%s.svg", len(list)+1, [...]string{"limit", "forecast", "wait"}[i])
				rig.Check(d.Draw(plot, filepath.Join(dir, name)))
			}
			list = append(list, d)
		})
	}
	return list
}

// write writes the page with a record and the plots.
func write(dir string, r *result.Record, runs []result.Figure) {
	page := result.Page{Title: "Weir: what the advisor is worth", Lead: r.Lead(), About: about}
	for _, s := range r.Sections {
		page.Chapters = append(page.Chapters, result.Chapter{Name: s.Heading, Notes: s.Notes, Tables: s.Tables,
			Bold: advisorName})
	}
	page.Chapters = append(page.Chapters, result.Chapter{Name: "What the advisor did", Figures: runs})
	rig.Check(page.Write(filepath.Join(dir, "index.html")))
}

// shownAbove bounds the axis of rates, relative to the largest capacity: a demand of five
// times it would flatten everything else.
const shownAbove = 1.6

// plots returns the plots of a scenario: limit and capacity, forecast and arrivals, and the
// wait for a worker.
func plots(s *closedloop.Scenario, r *closedloop.Result) []chart.Chart {
	column := func(of func(m closedloop.IntervalRates) float64) []float64 { return result.Map(r.Timeline, of) }
	x := column(func(m closedloop.IntervalRates) float64 { return m.At })
	capacity := column(func(m closedloop.IntervalRates) float64 { return m.Capacity })
	axis := chart.Axis{Unit: chart.Elapsed, Max: float64(r.Seconds)}
	limits := chart.Chart{Title: "Limit against capacity: " + s.Name, Width: 1180, Height: 300, X: axis,
		Y: chart.Axis{Label: "requests/s", Max: shownAbove * slices.Max(append(capacity, 0))}, Steps: true,
		Stack: []chart.Series{{Name: "answered in time", Color: chart.Green, X: x,
			Y: column(func(m closedloop.IntervalRates) float64 { return m.Good })}},
		Lines: []chart.Series{
			{Name: "demand", Color: chart.Grey, X: x, Y: column(func(m closedloop.IntervalRates) float64 { return m.Demand })},
			{Name: "capacity", Color: chart.Red, Dashed: true, X: x, Y: capacity},
			{Name: "limit", Color: chart.Amber, X: x, Y: column(func(m closedloop.IntervalRates) float64 { return m.Limit })}}}
	wait := chart.Chart{Title: "Longest wait for a worker", Width: 580, X: axis,
		Y: chart.Axis{Label: "wait", Unit: chart.Seconds}, Steps: true,
		Lines: []chart.Series{{Color: chart.Blue, X: x,
			Y: column(func(m closedloop.IntervalRates) float64 { return min(m.Wait, waitShown) })}},
		Limits: []chart.Limit{{Name: "promise", Color: chart.Amber, Y: s.SLO()}}}
	return []chart.Chart{limits,
		forecastPlot(r, axis, x, column(func(m closedloop.IntervalRates) float64 { return m.Offered })), wait}
}

// waitShown bounds the axis of waits, in seconds: clients give up earlier.
const waitShown = 2.5

// forecastPlot plots the forecast of five minutes before and the arrivals, including
// retries.
func forecastPlot(r *closedloop.Result, axis chart.Axis, x, offered []float64) chart.Chart {
	var at, low, middle, high []float64
	for _, f := range r.Forecasts {
		if f.At > float64(r.Seconds) || math.IsNaN(f.Middle) {
			continue
		}
		at, low, middle, high = append(at, f.At), append(low, f.Low), append(middle, f.Middle), append(high, f.High)
	}
	c := chart.Chart{Title: "Forecast of five minutes before against what arrived", Width: 580, X: axis,
		Y:     chart.Axis{Label: "requests/s"},
		Lines: []chart.Series{{Name: "arrived", Color: chart.Grey, X: x, Y: offered}}}
	if len(at) > 0 {
		c.Bands = []chart.Band{{Name: "5 % to 95 %", Color: chart.Violet, X: at, Low: low, High: high}}
		c.Lines = append(c.Lines, chart.Series{Name: "median", Color: chart.Violet, X: at, Y: middle})
	}
	return c
}
