package report

import (
	"fmt"
	"math"
	"slices"

	"weir/internal/data/chart"
	"weir/loadgen/record"
)

// columnsMax bounds the steps of a plot over time: more cannot be distinguished and make the page
// large.
const columnsMax = 600

// spansMax bounds the peaks that are drawn.
const spansMax = 200

// reasonsDrawn bounds the reasons of errors that are drawn separately.
const reasonsDrawn = 5

// The size of a plot in pixels; two fit side by side on a wide page.
const (
	plotWidth  = 590
	plotHeight = 250
)

// plots returns the plots of a report, in the order of the page.
func plots(r *record.Result) []chart.Chart {
	c := newCourse(r)
	all := []chart.Chart{c.rate(), c.outcomes()}
	if r.Errors > 0 {
		all = append(all, c.errors())
	}
	all = append(all, c.latency(), distribution(r), percentiles(r), c.lag(), lagByCause(r))
	for i := range all {
		all[i].Width, all[i].Height = plotWidth, plotHeight
	}
	if len(all)%2 == 1 { // the first plot fills a row
		all[0].Width = 2*plotWidth + 50
	}
	return all
}

// A course is the series of a run in the form that plots need.
type course struct {
	result *record.Result
	rows   []record.SeriesRow
	starts []float64
	length []float64 // of each row in seconds; the schedule may end within one
	axis   chart.Axis
	every  string // "second", or "3 seconds"
}

func newCourse(r *record.Result) course {
	series := r.Series.AtMost(columnsMax)
	c := course{result: r, rows: withoutTail(r, series.Rows), every: "second"}
	if series.Step > 1 {
		c.every = fmt.Sprintf("%g seconds", series.Step)
	}
	reach := r.Elapsed
	for _, row := range c.rows {
		length := series.Step
		// In the second in which the schedule ended only the part before counts, unless it is too
		// short for a rate.
		if rest := r.Elapsed - row.T; rest > series.Step/20 && rest < length {
			length = rest
		}
		c.starts = append(c.starts, row.T)
		c.length = append(c.length, length)
		reach = max(reach, row.T+length)
	}
	c.axis = chart.Axis{Unit: chart.Elapsed, Max: reach}
	return c
}

// withoutTail returns the rows up to the end of the schedule. Rows after it, in which the last
// answers arrived, are included only if they contain at least a hundredth of all answers.
func withoutTail(r *record.Result, rows []record.SeriesRow) []record.SeriesRow {
	end := len(rows)
	for end > 0 && rows[end-1].T >= r.Elapsed {
		end--
	}
	var late uint64
	for _, row := range rows[end:] {
		late += row.Success + row.RateLimited + row.Shed + row.Errors
	}
	if end > 0 && late < r.Completed/100 {
		return rows[:end]
	}
	return rows
}

// asked is perSecond with gaps after the end of the schedule, when nothing is due or sent.
func (c *course) asked(f func(r *record.SeriesRow) uint64) []float64 {
	values := c.perSecond(f)
	for i := range values {
		if c.starts[i] >= c.result.Elapsed && f(&c.rows[i]) == 0 {
			values[i] = math.NaN()
		}
	}
	return values
}

func (c *course) each(f func(r *record.SeriesRow) float64) []float64 {
	values := make([]float64, len(c.rows))
	for i := range c.rows {
		values[i] = f(&c.rows[i])
	}
	return values
}

// perSecond returns f of every row as a rate.
func (c *course) perSecond(f func(r *record.SeriesRow) uint64) []float64 {
	values := c.each(func(r *record.SeriesRow) float64 { return float64(f(r)) })
	for i := range values {
		values[i] /= c.length[i]
	}
	return values
}

// measured returns f of every row, with gaps for zero, which is not a latency.
func (c *course) measured(f func(r *record.SeriesRow) float64) []float64 {
	return c.each(func(r *record.SeriesRow) float64 {
		if v := f(r); v > 0 {
			return v
		}
		return math.NaN()
	})
}

func (c *course) over(title, label string) chart.Chart {
	return chart.Chart{Title: title, X: c.axis, Y: chart.Axis{Label: label}, Steps: true}
}

func (c *course) line(name string, color chart.Color, values []float64) chart.Series {
	return chart.Series{Name: name, Color: color, X: c.starts, Y: values}
}

func (c *course) rate() chart.Chart {
	p := c.over("Rate", "requests per second, planned and sent")
	asked := c.line("asked", chart.Grey, c.asked(func(r *record.SeriesRow) uint64 { return r.Due }))
	asked.Dashed = true
	p.Lines = []chart.Series{c.line("sent", chart.Blue, c.asked(func(r *record.SeriesRow) uint64 { return r.Sent })),
		asked}
	for _, peak := range c.result.Peaks[:min(len(c.result.Peaks), spansMax)] {
		p.Spans = append(p.Spans, chart.Span{Name: "peak of the schedule", Color: chart.Violet, From: peak.Start,
			To: max(peak.Start, peak.End)})
	}
	return p
}

func (c *course) outcomes() chart.Chart {
	p := c.over("Outcomes", "per second, when they were known")
	p.Stack = []chart.Series{
		c.line("success", chart.Green, c.perSecond(func(r *record.SeriesRow) uint64 { return r.Success })),
		c.line("rate limited (429)", chart.Amber, c.perSecond(func(r *record.SeriesRow) uint64 { return r.RateLimited })),
	}
	if c.result.Shed > 0 {
		p.Stack = append(p.Stack,
			c.line("shed (503)", chart.Violet, c.perSecond(func(r *record.SeriesRow) uint64 { return r.Shed })))
	}
	p.Stack = append(p.Stack, c.line("errors", chart.Red,
		c.perSecond(func(r *record.SeriesRow) uint64 { return r.Errors })))
	return p
}

func (c *course) errors() chart.Chart {
	p := c.over("Errors by reason", "per second")
	colors := [reasonsDrawn + 1]chart.Color{chart.Red, chart.Violet, chart.Amber, chart.Blue, chart.Green, chart.Grey}
	reasons := byCount(c.result.ErrorsByReason)
	for i, reason := range reasons[:min(len(reasons), reasonsDrawn)] {
		p.Stack = append(p.Stack,
			c.line(reason, colors[i], c.perSecond(func(r *record.SeriesRow) uint64 { return r.ErrorsByReason[reason] })))
	}
	if len(reasons) > reasonsDrawn {
		p.Stack = append(p.Stack, c.line("others", colors[reasonsDrawn], c.perSecond(func(r *record.SeriesRow) (n uint64) {
			for _, reason := range reasons[reasonsDrawn:] {
				n += r.ErrorsByReason[reason]
			}
			return n
		})))
	}
	return p
}

func (c *course) latency() chart.Chart {
	p := c.over("Latency", "of each "+c.every+", from when a request was due")
	p.Y.Unit, p.Y.Scale = chart.Seconds, chart.Log
	p.Lines = []chart.Series{
		c.line("p99", chart.Red, c.measured(func(r *record.SeriesRow) float64 { return r.LatencyP99 })),
		c.line("p95", chart.Amber, c.measured(func(r *record.SeriesRow) float64 { return r.LatencyP95 })),
		c.line("p50", chart.Blue, c.measured(func(r *record.SeriesRow) float64 { return r.LatencyP50 })),
	}
	return p
}

func (c *course) lag() chart.Chart {
	p := c.over("Lag", "how late requests were sent, p99 of each "+c.every)
	p.Y.Unit, p.Y.Scale = chart.Seconds, chart.Log
	p.Lines = []chart.Series{c.line("lag p99", chart.Violet,
		c.measured(func(r *record.SeriesRow) float64 { return r.LagP99 }))}
	for i := range c.rows {
		if row := &c.rows[i]; row.SentLate > 0 {
			p.Spans = append(p.Spans, chart.Span{Name: "requests missed their time", Color: chart.Red, From: row.T,
				To: row.T + c.length[i]})
		}
	}
	return p
}

// perDecade is the number of bars of a distribution per factor of ten.
const perDecade = 10

// intervals returns the edges of bars from low to high (seconds), evenly spaced on a logarithmic
// axis.
func intervals(low, high float64) []float64 {
	low = max(low, 1e-6)
	high = max(high, low)
	first := math.Floor(math.Log10(low)*perDecade + 1e-9)
	last := math.Floor(math.Log10(high)*perDecade+1e-9) + 1
	var edges []float64
	for i := first; i <= last; i++ {
		edges = append(edges, math.Pow(10, i/perDecade))
	}
	return edges
}

// A part is one of several histograms in a plot.
type part struct {
	name  string
	color chart.Color
	spans record.Histogram
}

// stacked returns stacked bars of all parts, the first at the bottom.
func stacked(parts []part) []chart.Bars {
	low, high := math.Inf(1), 0.0
	for _, p := range parts {
		if s := p.spans.Summary(); s.Count > 0 {
			low, high = min(low, s.Min), max(high, s.Max)
		}
	}
	if high == 0 {
		return nil
	}
	edges := intervals(low, high)
	sum := make([]float64, len(edges)-1)
	var bars []chart.Bars
	for _, p := range parts {
		if p.spans.Summary().Count == 0 {
			continue
		}
		heights := make([]float64, len(sum))
		for i, n := range p.spans.Between(upward(edges)) {
			sum[i] += float64(n)
			heights[i] = sum[i]
		}
		// The sum of all parts is drawn first, and covered by the lower ones.
		bars = append([]chart.Bars{{Name: p.name, Color: p.color, Edges: edges, Heights: heights}}, bars...)
	}
	return bars
}

func distribution(r *record.Result) chart.Chart {
	h := &r.Histograms
	return chart.Chart{
		Title: "Latency distribution", X: chart.Axis{Unit: chart.Seconds, Scale: chart.Log, Label: "latency"},
		Y: chart.Axis{Label: "requests"},
		Bars: stacked([]part{
			{"success", chart.Green, h.LatencySuccess}, {"rate limited (429)", chart.Amber, h.LatencyRateLimited},
			{"shed (503)", chart.Violet, h.LatencyShed}, {"errors", chart.Red, h.LatencyErrors},
		}),
	}
}

// lagByCause shows how many requests had more than each lag, because in bars the few with a long
// one would not be visible.
func lagByCause(r *record.Result) chart.Chart {
	h := &r.Histograms
	p := chart.Chart{
		Title: "Lag by cause", X: chart.Axis{Unit: chart.Seconds, Scale: chart.Log, Label: "lag"},
		Y: chart.Axis{Label: "requests that were later than this", Scale: chart.Log},
	}
	for _, c := range []part{
		{"the generator was late", chart.Violet, h.PacerLag}, {"waited for a busy connection", chart.Amber, h.BusyLag},
		{"waited for a new connection", chart.Blue, h.DialLag},
	} {
		if s := c.spans.Summary(); s.Count > 0 {
			p.Lines = append(p.Lines, later(c, intervals(s.Min, s.Max)))
		}
	}
	return p
}

// later returns a line of how many spans of p are longer than each edge.
func later(p part, edges []float64) chart.Series {
	rest := float64(p.spans.Summary().Count)
	line := chart.Series{Name: p.name, Color: p.color, X: edges, Y: []float64{rest}}
	for _, n := range p.spans.Between(upward(edges)) {
		rest -= float64(n)
		line.Y = append(line.Y, rest)
	}
	return line
}

// upward returns edges whose first interval includes everything below.
func upward(edges []float64) []float64 {
	e := slices.Clone(edges)
	e[0] = 0
	return e
}

// percentilePoints is the number of points of a curve of percentiles per further nine.
const percentilePoints = 40

// percentiles plots the tail of the latency: a straight line means that it grows by the same factor
// with each nine.
func percentiles(r *record.Result) chart.Chart {
	h := &r.Histograms
	p := chart.Chart{
		Title: "Latency by percentile", X: chart.Axis{Unit: chart.Share, Scale: chart.Percentiles,
			Label: "share of the requests that took no longer"},
		Y: chart.Axis{Unit: chart.Seconds, Scale: chart.Log, Label: "with and without the wait before sending"},
	}
	for _, c := range []part{{"latency, from due", chart.Blue, h.Latency()},
		{"service time, from sending", chart.Green, h.ServiceTime}} {
		count := c.spans.Summary().Count
		if count == 0 {
			continue
		}
		line := chart.Series{Name: c.name, Color: c.color}
		nines := min(max(math.Log10(float64(count)), 2), 7) // beyond is a single request
		for i := range int(nines*percentilePoints) + 1 {
			line.X = append(line.X, 1-math.Pow(10, -float64(i)/percentilePoints))
		}
		for _, span := range c.spans.Quantiles(line.X) {
			line.Y = append(line.Y, max(span, 1e-6))
		}
		p.Lines = append(p.Lines, line)
	}
	return p
}
