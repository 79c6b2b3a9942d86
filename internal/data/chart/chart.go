// Package chart draws plots as SVG. The same values give the same bytes.
//
// A Chart is a plain value that describes a plot: lines, bands between two lines,
// stacked areas, bars, limits, and marked spans of the x axis. SVG draws it with
// gonum.org/v1/plot, which nothing else imports, and replaces the colours by variables,
// so that a plot is readable on light and dark pages, within a page or as a file.
package chart

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// A Chart is one plot. Marks are drawn in the order of the fields, so limits are in front.
//
// Values that are NaN, or that a logarithmic axis cannot show, are gaps.
type Chart struct {
	Title         string
	Width, Height float64 // in pixels; zero: 760 and 260
	X, Y          Axis
	// Steps says that a value holds from its x until the next one, like counts per
	// second. Otherwise values are joined by straight lines.
	Steps bool

	Spans  []Span
	Stack  []Series // areas, each on top of the one before; all with the same X
	Bands  []Band
	Bars   []Bars
	Lines  []Series
	Limits []Limit
}

// The default size of a chart, and the bound of its sides.
const (
	widthDefault  = 760
	heightDefault = 260
	sizeMax       = 10_000
)

// valuesMax bounds the values of one series. More cannot be distinguished on a screen.
const valuesMax = 100_000

// An Axis describes how values are shown along it.
type Axis struct {
	Label string
	Unit  Unit
	Scale Scale
	// Min and Max are the range. If both are zero it follows from the values, and a
	// linear y axis begins at zero.
	Min, Max float64
}

// A Unit is the format of the values of an axis.
type Unit uint8

const (
	Number  Unit = iota // 250, 15k, 1.5M
	Seconds             // a span: 20 µs, 1.5 ms, 30 s
	Elapsed             // seconds since a start: 90 s, 5 min, 1:30 h
	Clock               // seconds since 1970: 16:30, in UTC
	Share               // from 0 to 1, shown in percent
)

// A Scale says how values are spaced along an axis.
type Scale uint8

const (
	Linear      Scale = iota
	Log               // each factor of ten is equally long
	Percentiles       // of shares: 90 %, 99 %, 99.9 % are equally far apart
)

// A Color is a colour with a variant for light and one for dark pages.
type Color uint8

const (
	Blue Color = iota
	Green
	Amber
	Red
	Violet
	Grey

	tones = iota
)

// A Series is a sequence of values.
type Series struct {
	Name   string // in the legend; may be empty
	Color  Color
	Dashed bool
	X, Y   []float64 // X is ascending
}

// A Band is the area between two sequences of values.
type Band struct {
	Name      string
	Color     Color
	X         []float64
	Low, High []float64
}

// Bars are a histogram: bar i extends from Edges[i] to Edges[i+1].
type Bars struct {
	Name    string
	Color   Color
	Edges   []float64
	Heights []float64
}

// A Limit is a horizontal line to compare values with.
type Limit struct {
	Name  string // written on the line
	Color Color
	Y     float64
}

// A Span is a marked part of the x axis.
type Span struct {
	Name     string // the legend shows each name once
	Color    Color
	From, To float64
}

// SVG draws the chart. The element has the class "chart" and no size other than its
// viewBox, so the page scales it. The error says which series cannot be drawn and why.
func (c *Chart) SVG() ([]byte, error) {
	if err := c.validate(); err != nil {
		return nil, fmt.Errorf("draw chart %q: %w", c.Title, err)
	}
	whole := *c
	whole.Width, whole.Height = cmp.Or(c.Width, widthDefault), cmp.Or(c.Height, heightDefault)
	return whole.render(), nil
}

func (c *Chart) validate() error {
	for _, size := range []float64{c.Width, c.Height} {
		if !(size >= 0 && size <= sizeMax) {
			return fmt.Errorf("the size must be from 0 to %d pixels, is %v", sizeMax, size)
		}
	}
	for _, a := range []Axis{c.X, c.Y} {
		if !finite(a.Min) || !finite(a.Max) || a.Min > a.Max {
			return fmt.Errorf("an axis must not reach from %v to %v", a.Min, a.Max)
		}
	}
	for _, s := range c.rows() {
		if err := s.validate(); err != nil {
			return err
		}
	}
	for _, s := range c.Stack {
		if len(s.X) != len(c.Stack[0].X) {
			return fmt.Errorf("%q has %d values, the area below it %d", s.Name, len(s.X), len(c.Stack[0].X))
		}
	}
	for _, l := range c.Limits {
		if !finite(l.Y) {
			return fmt.Errorf("the limit %q is %v", l.Name, l.Y)
		}
	}
	for _, s := range c.Spans {
		if !finite(s.From) || !finite(s.To) || s.From > s.To {
			return fmt.Errorf("%q reaches from %v to %v", s.Name, s.From, s.To)
		}
	}
	return nil
}

// rows returns all values of the chart as series.
func (c *Chart) rows() []Series {
	rows := slices.Concat(c.Stack, c.Lines)
	for _, b := range c.Bands {
		rows = append(rows, Series{Name: b.Name, X: b.X, Y: b.Low}, Series{Name: b.Name, X: b.X, Y: b.High})
	}
	for _, b := range c.Bars {
		// The last edge has no height: it takes the one before.
		heights := slices.Concat(b.Heights, b.Heights[max(0, len(b.Heights)-1):])
		rows = append(rows, Series{Name: b.Name, X: b.Edges, Y: heights})
	}
	return rows
}

func (s *Series) validate() error {
	switch {
	case len(s.X) != len(s.Y):
		return fmt.Errorf("%q has %d places and %d values", s.Name, len(s.X), len(s.Y))
	case len(s.X) > valuesMax:
		return fmt.Errorf("%q has %d values, at most %d can be drawn", s.Name, len(s.X), valuesMax)
	}
	for i, x := range s.X {
		if !finite(x) || i > 0 && x < s.X[i-1] {
			return fmt.Errorf("place %d of %q is %v: places must ascend", i, s.Name, x)
		}
		if math.IsInf(s.Y[i], 0) {
			return fmt.Errorf("value %d of %q is infinite", i, s.Name)
		}
	}
	return nil
}

func finite(v float64) bool { return v-v == 0 }
