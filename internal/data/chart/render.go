package chart

import (
	"bytes"
	"fmt"
	"html"
	"image/color"
	"slices"
	"strings"

	xfont "golang.org/x/image/font"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// Font sizes in pixels.
const (
	large = 13
	small = 11
)

// The canvas draws with placeholder colours, which are replaced by variables of the style
// sheet. The first byte is the kind of mark, the last one the tone.
const (
	linePaint = 0xA1
	bandPaint = 0xB1
	areaPaint = 0xB2
	spanPaint = 0xB3
	barPaint  = 0xB4
)

var (
	inkColour   = color.NRGBA{0xA1, 1, 0, 0xFF}
	mutedColour = color.NRGBA{0xA1, 1, 1, 0xFF}
	gridColour  = color.NRGBA{0xA1, 1, 2, 0xFF}
)

func paint(kind uint8, t Color) color.Color { return color.NRGBA{kind, 0, uint8(t), 0xFF} }

// toneNames are the names of the tones in the style sheet.
var toneNames = [tones]string{"blue", "green", "amber", "red", "violet", "grey"}

// style is the style sheet of a chart. A page may override the variables.
const style = `<style>
.chart{font-family:"Liberation Sans",Arial,Helvetica,sans-serif;--chart-ink:#1c2733;--chart-muted:#5b6776;--chart-grid:#e4e9ef;` +
	`--chart-blue:#2563c9;--chart-green:#1f9254;--chart-amber:#c77700;--chart-red:#cf3341;--chart-violet:#7c4dbd;--chart-grey:#7d8896}
@media (prefers-color-scheme:dark){.chart{--chart-ink:#dfe6ee;--chart-muted:#9aa7b5;--chart-grid:#2c3744;` +
	`--chart-blue:#6ea8fe;--chart-green:#56cf8b;--chart-amber:#f0b04a;--chart-red:#ff7d85;--chart-violet:#b996f7;--chart-grey:#8f9aa8}}
</style>
`

// opacities are the opacities of fills by kind of mark.
var opacities = []struct {
	kind    int
	opacity string
}{
	{linePaint, ""}, {bandPaint, ";fill-opacity:.22"}, {areaPaint, ";fill-opacity:.75"},
	{spanPaint, ";fill-opacity:.16"}, {barPaint, ""},
}

// palette returns the replacements of the placeholder colours.
func palette() *strings.Replacer {
	pairs := []string{
		"#A10100", "var(--chart-ink)", "#A10101", "var(--chart-muted)", "#A10102", "var(--chart-grid)",
		"font-family:Liberation Sans;font-variant:normal;font-weight:normal;font-style:normal;", "",
		"font-family:Liberation Sans;font-variant:normal;font-weight:bold;font-style:normal;", "font-weight:bold;",
	}
	for t, name := range toneNames {
		for _, o := range opacities {
			pairs = append(pairs, fmt.Sprintf("#%02X00%02X", o.kind, t), "var(--chart-"+name+")"+o.opacity)
		}
	}
	return strings.NewReplacer(pairs...)
}

// words returns the style of a text.
func words(size float64, ink color.Color) text.Style {
	return text.Style{
		Color: ink, Font: font.From(font.Font{Typeface: "Liberation", Variant: "Sans"}, vg.Length(size)),
		Handler: plot.DefaultTextHandler,
	}
}

// A sheet is a canvas that notes how long each text is by the measures of its font.
type sheet struct {
	*vgsvg.Canvas
	lengths []float64 // in pixels
}

// FillString implements vg.Canvas.
func (s *sheet) FillString(f font.Face, at vg.Point, words string) {
	s.lengths = append(s.lengths, f.Width(words).Points())
	s.Canvas.FillString(f, at, words)
}

// fitted gives every text in a drawing the length that the chart was laid out with. A browser
// that has another font would draw texts over each other, and beyond the edge.
func (s *sheet) fitted(drawn string) string {
	const begin = "<text "
	parts := strings.Split(drawn, begin)
	if len(parts) != len(s.lengths)+1 {
		panic(fmt.Sprintf("bug: %d texts were drawn, %d measured", len(parts)-1, len(s.lengths)))
	}
	var out strings.Builder
	out.WriteString(parts[0])
	for i, part := range parts[1:] {
		out.WriteString(begin)
		if s.lengths[i] > 0 {
			fmt.Fprintf(&out, `textLength="%.1f" lengthAdjust="spacingAndGlyphs" `, s.lengths[i])
		}
		out.WriteString(part)
	}
	return out.String()
}

// render draws a valid chart.
func (c *Chart) render() []byte {
	canvas := &sheet{Canvas: vgsvg.NewWith(vgsvg.UseWH(vg.Length(c.Width), vg.Length(c.Height)))}
	area := draw.New(canvas)
	area = draw.Crop(area, 2, -4, 2, -c.head(area)-6)
	p := c.plot()
	p.Draw(area)
	var drawn bytes.Buffer
	if _, err := canvas.WriteTo(&drawn); err != nil {
		panic("bug: a buffer refuses a drawing: " + err.Error())
	}
	_, body, found := strings.Cut(canvas.fitted(drawn.String()), `xlink">`)
	if !found {
		panic("bug: a drawing that begins otherwise: " + drawn.String()[:min(200, drawn.Len())])
	}
	var out bytes.Buffer
	fmt.Fprintf(&out,
		`<svg xmlns="http://www.w3.org/2000/svg" class="chart" role="img" aria-label="%s" viewBox="0 0 %g %g">`+"\n",
		html.EscapeString(c.Title), c.Width, c.Height)
	out.WriteString(style)
	out.WriteString(strings.TrimSpace(palette().Replace(body)))
	out.WriteString("\n")
	return out.Bytes()
}

// plot returns the plot with its axes and marks.
func (c *Chart) plot() *plot.Plot {
	p := plot.New()
	p.BackgroundColor = nil
	xReach, yReach := c.reaches()
	if c.Y.Scale == Linear && c.Y.Min == 0 && c.Y.Max == 0 {
		yReach.low = min(yReach.low, 0)
	}
	if !finite(yReach.low) {
		yReach = reach{0, 1}
	}
	if c.Y.Scale == Linear && yReach.high > 0 {
		yReach.high *= headroom
	}
	x := newRuler(c.X, xReach.low, xReach.high, max(2, int(c.Width/95)))
	y := newRuler(c.Y, yReach.low, yReach.high, max(2, int(c.Height/48)))
	dress(&p.X, x)
	dress(&p.Y, y)
	p.X.LineStyle = draw.LineStyle{Color: mutedColour, Width: 1}
	p.X.Tick.LineStyle, p.X.Tick.Length = draw.LineStyle{Color: mutedColour, Width: 1}, 4
	p.X.Label.Text, p.X.Label.TextStyle = c.X.Label, words(small, mutedColour)
	p.X.Label.TextStyle.XAlign, p.X.Label.Padding = draw.XCenter, 5
	p.X.Tick.Label.YAlign -= 0.2 // away from the ticks
	p.Y.LineStyle.Width, p.Y.Tick.Length = 0, 0
	whole := *c
	whole.X.Max, whole.Y.Min = x.high, y.low
	p.Add(marks{&whole})
	return p
}

// headroom is the ratio of the end of a linear y axis to the highest value.
const headroom = 1.03

// dress applies a ruler to an axis of a plot.
func dress(a *plot.Axis, r ruler) {
	a.Min, a.Max = r.low, r.high
	a.Scale, a.Tick.Marker = r, r
	a.Padding = 0
	old := a.Tick.Label
	a.Tick.Label = words(small, mutedColour)
	a.Tick.Label.XAlign, a.Tick.Label.YAlign = old.XAlign, old.YAlign
}

// An entry is an entry of the legend.
type entry struct {
	name string
	ink  color.Color // of an area; nil: a line
	line draw.LineStyle
}

func (c *Chart) entries() []entry {
	var all []entry
	add := func(e entry) {
		if e.name != "" && !slices.ContainsFunc(all, func(other entry) bool { return other.name == e.name }) {
			all = append(all, e)
		}
	}
	for _, s := range c.Lines {
		add(entry{name: s.Name, line: strokeOf(s)})
	}
	for _, s := range c.Stack {
		add(entry{name: s.Name, ink: paint(areaPaint, s.Color)})
	}
	for _, b := range c.Bands {
		add(entry{name: b.Name, ink: paint(bandPaint, b.Color)})
	}
	for _, b := range c.Bars {
		add(entry{name: b.Name, ink: paint(barPaint, b.Color)})
	}
	for _, s := range c.Spans {
		add(entry{name: s.Name, ink: paint(spanPaint, s.Color)})
	}
	return all
}

// head draws the title, the label of the y axis and the legend, and returns their height.
func (c *Chart) head(area draw.Canvas) vg.Length {
	title := words(large, inkColour)
	title.Font.Weight = xfont.WeightBold
	muted := words(small, mutedColour)
	top := area.Max.Y
	if c.Title != "" || c.Y.Label != "" {
		top -= large + 2
		area.FillText(title, vg.Point{X: 2, Y: top}, c.Title)
		left := vg.Length(2)
		if c.Title != "" {
			left += title.Width(c.Title) + 10
		}
		area.FillText(muted, vg.Point{X: left, Y: top}, c.Y.Label)
		top -= 5
	}
	const swatch, gap, apart = 16, 5, 16
	left, line := vg.Length(2), false
	label := words(small, inkColour)
	for _, e := range c.entries() {
		width := swatch + gap + label.Width(e.name) + apart
		if !line || left+width > area.Max.X {
			left, line = 2, true
			top -= small + 5
		}
		mid := top + small/2 - 1
		if e.ink != nil {
			area.FillPolygon(e.ink, []vg.Point{{X: left, Y: mid - 4}, {X: left + swatch, Y: mid - 4},
				{X: left + swatch, Y: mid + 4}, {X: left, Y: mid + 4}})
		} else {
			area.StrokeLine2(e.line, left, mid, left+swatch, mid)
		}
		area.FillText(label, vg.Point{X: left + swatch + gap, Y: top}, e.name)
		left += width
	}
	return area.Max.Y - top
}
