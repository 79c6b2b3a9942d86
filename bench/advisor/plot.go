package advisor

import (
	"math"
	"slices"

	"weir/bench/closedloop"
	"weir/bench/report"
	"weir/internal/chart"
)

// shownAbove bounds the axis of rates, relative to the largest capacity: a demand of five
// times it would flatten everything else.
const shownAbove = 1.6

// plots returns the plots of a scenario: limit and capacity, forecast and arrivals, and the
// wait for a worker.
func plots(s *closedloop.Scenario, r *closedloop.Result) []chart.Chart {
	column := func(of func(m closedloop.Moment) float64) []float64 { return report.Figures(r.Timeline, of) }
	x := column(func(m closedloop.Moment) float64 { return m.At })
	capacity := column(func(m closedloop.Moment) float64 { return m.Capacity })
	axis := chart.Axis{Unit: chart.Elapsed, Max: float64(r.Seconds)}
	limits := chart.Chart{Title: "Limit against capacity: " + s.Name, Width: 1180, Height: 300, X: axis,
		Y: chart.Axis{Label: "requests/s", Max: shownAbove * slices.Max(append(capacity, 0))}, Steps: true,
		Stack: []chart.Series{{Name: "answered in time", Tone: chart.Green, X: x, Y: column(func(m closedloop.Moment) float64 { return m.Good })}},
		Lines: []chart.Series{
			{Name: "demand", Tone: chart.Grey, X: x, Y: column(func(m closedloop.Moment) float64 { return m.Demand })},
			{Name: "capacity", Tone: chart.Red, Dashed: true, X: x, Y: capacity},
			{Name: "limit", Tone: chart.Amber, X: x, Y: column(func(m closedloop.Moment) float64 { return m.Limit })}}}
	wait := chart.Chart{Title: "Longest wait for a worker", Width: 580, X: axis, Y: chart.Axis{Label: "wait", Unit: chart.Seconds}, Steps: true,
		Lines:  []chart.Series{{Tone: chart.Blue, X: x, Y: column(func(m closedloop.Moment) float64 { return min(m.Wait, waitShown) })}},
		Limits: []chart.Limit{{Name: "promise", Tone: chart.Amber, Y: s.Promise()}}}
	return []chart.Chart{limits, forecastPlot(r, axis, x, column(func(m closedloop.Moment) float64 { return m.Offered })), wait}
}

// waitShown bounds the axis of waits, in seconds: clients give up earlier.
const waitShown = 2.5

// forecastPlot plots the forecast of five minutes before and the arrivals, including
// retries.
func forecastPlot(r *closedloop.Result, axis chart.Axis, x, offered []float64) chart.Chart {
	var at, low, middle, high []float64
	for _, f := range r.Foreseen {
		if f.At > float64(r.Seconds) || math.IsNaN(f.Middle) {
			continue
		}
		at, low, middle, high = append(at, f.At), append(low, f.Low), append(middle, f.Middle), append(high, f.High)
	}
	c := chart.Chart{Title: "Forecast of five minutes before against what arrived", Width: 580, X: axis, Y: chart.Axis{Label: "requests/s"},
		Lines: []chart.Series{{Name: "arrived", Tone: chart.Grey, X: x, Y: offered}}}
	if len(at) > 0 {
		c.Bands = []chart.Band{{Name: "5 % to 95 %", Tone: chart.Violet, X: at, Low: low, High: high}}
		c.Lines = append(c.Lines, chart.Series{Name: "median", Tone: chart.Violet, X: at, Y: middle})
	}
	return c
}
