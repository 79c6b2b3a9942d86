package chart

import (
	"image/color"
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// marks draws everything between the axes of a chart. It is a plot.Plotter.
type marks struct{ *Chart }

// lineWidth is the width of the line of a series, in pixels.
const lineWidth = 1.6

// Plot implements plot.Plotter.
func (m marks) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	at := func(px, py float64) vg.Point { return vg.Point{X: x(px), Y: y(py)} }
	m.spans(c, x)
	m.grid(c, p, y)
	m.stack(c, at)
	for _, b := range m.Bands {
		m.between(c, at, b, paint(bandPaint, b.Color))
	}
	m.bars(c, p, at)
	for _, s := range m.Lines {
		m.line(c, at, s)
	}
	m.limits(c, y)
	if m.empty() {
		style := words(small, mutedColour)
		style.XAlign, style.YAlign = draw.XCenter, draw.YCenter
		c.FillText(style, c.Center(), "nothing to show")
	}
}

// empty reports whether no value is visible.
func (m marks) empty() bool {
	for _, s := range m.rows() {
		for i := range s.X {
			if m.X.shows(s.X[i]) && m.Y.shows(s.Y[i]) {
				return false
			}
		}
	}
	return true
}

func (m marks) spans(c draw.Canvas, x func(float64) vg.Length) {
	for _, s := range m.Spans {
		from, to := max(x(s.From), c.Min.X), min(x(s.To), c.Max.X)
		if to < from {
			continue
		}
		to = max(to, from+1) // even an instant is visible
		c.FillPolygon(paint(spanPaint, s.Color), []vg.Point{{X: from, Y: c.Min.Y}, {X: to, Y: c.Min.Y},
			{X: to, Y: c.Max.Y}, {X: from, Y: c.Max.Y}})
	}
}

// grid draws a horizontal line at each label of the y axis.
func (m marks) grid(c draw.Canvas, p *plot.Plot, y func(float64) vg.Length) {
	for _, t := range p.Y.Tick.Marker.Ticks(p.Y.Min, p.Y.Max) {
		c.StrokeLine2(draw.LineStyle{Color: gridColour, Width: 1}, c.Min.X, y(t.Value), c.Max.X, y(t.Value))
	}
}

func (m marks) stack(c draw.Canvas, at func(x, y float64) vg.Point) {
	if len(m.Stack) == 0 {
		return
	}
	low := slices.Repeat([]float64{m.Y.Min}, len(m.Stack[0].X))
	for _, s := range m.Stack {
		high := onTop(low, s)
		m.between(c, at, Band{X: s.X, Low: low, High: high}, paint(areaPaint, s.Color))
		low = high
	}
}

// between fills the area between two sequences of values, except for gaps.
func (m marks) between(c draw.Canvas, at func(x, y float64) vg.Point, b Band, fill color.Color) {
	visible := func(i int) bool { return m.Y.shows(b.Low[i]) && m.Y.shows(b.High[i]) && m.X.shows(b.X[i]) }
	for _, part := range runs(len(b.X), visible) {
		upper := m.path(at, b.X, b.High, part)
		lower := m.path(at, b.X, b.Low, part)
		slices.Reverse(lower)
		c.FillPolygon(fill, c.ClipPolygonXY(append(upper, lower...)))
	}
}

// bars draws histograms. All bars begin at the lower end of the y axis.
func (m marks) bars(c draw.Canvas, p *plot.Plot, at func(x, y float64) vg.Point) {
	for _, b := range m.Bars {
		for i, h := range b.Heights {
			if !m.Y.shows(h) || h <= p.Y.Min || !m.X.shows(b.Edges[i]) {
				continue
			}
			from, to := at(b.Edges[i], p.Y.Min), at(b.Edges[i+1], h)
			if to.X-from.X > 3 { // a gap separates neighbours
				to.X -= 0.75
			}
			c.FillPolygon(paint(barPaint, b.Color),
				c.ClipPolygonXY([]vg.Point{from, {X: to.X, Y: from.Y}, to, {X: from.X, Y: to.Y}}))
		}
	}
}

func (m marks) line(c draw.Canvas, at func(x, y float64) vg.Point, s Series) {
	style := strokeOf(s)
	visible := func(i int) bool { return m.Y.shows(s.Y[i]) && m.X.shows(s.X[i]) }
	for _, part := range runs(len(s.X), visible) {
		path := m.path(at, s.X, s.Y, part)
		if len(path) == 1 { // a value without neighbours
			c.DrawGlyph(draw.GlyphStyle{Color: style.Color, Radius: lineWidth, Shape: draw.CircleGlyph{}}, path[0])
			continue
		}
		c.StrokeLines(style, c.ClipLinesXY(path)...)
	}
}

func strokeOf(s Series) draw.LineStyle {
	style := draw.LineStyle{Color: paint(linePaint, s.Color), Width: lineWidth}
	if s.Dashed {
		style.Dashes = []vg.Length{5, 3}
	}
	return style
}

// path returns the points that join the values of a part, in steps or straight.
func (m marks) path(at func(x, y float64) vg.Point, x, y []float64, part [2]int) []vg.Point {
	var points []vg.Point
	for i := part[0]; i < part[1]; i++ {
		points = append(points, at(x[i], y[i]))
		if m.Steps {
			points = append(points, at(m.until(x, i), y[i]))
		}
	}
	return points
}

// until returns the end of the step that begins at x[i]. The last step is as long as
// the one before.
func (m marks) until(x []float64, i int) float64 {
	switch {
	case i+1 < len(x):
		return x[i+1]
	case i > 0:
		return x[i] + (x[i] - x[i-1])
	}
	return max(x[i], m.X.Max)
}

func (m marks) limits(c draw.Canvas, y func(float64) vg.Length) {
	for _, l := range m.Limits {
		at := y(l.Y)
		if !m.Y.shows(l.Y) || !c.ContainsY(at) {
			continue
		}
		c.StrokeLine2(draw.LineStyle{Color: paint(linePaint, l.Color), Width: 1.2, Dashes: []vg.Length{2, 3}}, c.Min.X, at,
			c.Max.X, at)
		if l.Name == "" {
			continue
		}
		style := words(small, paint(linePaint, l.Color))
		style.XAlign, style.YAlign = draw.XRight, draw.YBottom
		if c.Max.Y-at < 2*small { // there is no room above
			style.YAlign = draw.YTop
		}
		c.FillText(style, vg.Point{X: c.Max.X - 2, Y: at + 2}, l.Name)
	}
}

// runs returns the maximal visible ranges of 0 … n-1, as [from, to).
func runs(n int, visible func(int) bool) (parts [][2]int) {
	from := -1
	for i := range n {
		switch {
		case visible(i) && from < 0:
			from = i
		case !visible(i) && from >= 0:
			parts = append(parts, [2]int{from, i})
			from = -1
		}
	}
	if from >= 0 {
		parts = append(parts, [2]int{from, n})
	}
	return parts
}

// A reach is a range of values.
type reach struct{ low, high float64 }

func newReach() reach { return reach{math.Inf(1), math.Inf(-1)} }

// take extends the reach to v if the axis can show it.
func (r *reach) take(a *Axis, v float64) {
	if a.shows(v) {
		r.low, r.high = min(r.low, v), max(r.high, v)
	}
}

// reaches returns the ranges of the chart's values along both axes.
func (c *Chart) reaches() (x, y reach) {
	x, y = newReach(), newReach()
	for _, s := range c.rows() {
		for i := range s.X {
			x.take(&c.X, s.X[i])
			y.take(&c.Y, s.Y[i])
		}
		if n := len(s.X); c.Steps && n > 1 {
			x.take(&c.X, 2*s.X[n-1]-s.X[n-2])
		}
	}
	var sums []float64
	for _, s := range c.Stack {
		sums = onTop(sums, s)
	}
	for _, sum := range sums {
		y.take(&c.Y, sum)
	}
	for _, l := range c.Limits {
		y.take(&c.Y, l.Y)
	}
	return x, y
}

// onTop returns the heights of a stack with one more area; a gap adds nothing.
func onTop(below []float64, s Series) []float64 {
	high := make([]float64, len(s.Y))
	copy(high, below)
	for i, v := range s.Y {
		if v == v {
			high[i] += v
		}
	}
	return high
}
