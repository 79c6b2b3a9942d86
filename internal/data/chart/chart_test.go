package chart

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/internal/data/chart/charttest"
	"weir/internal/test/testkit"
)

func ExampleChart_SVG() {
	c := Chart{
		Title: "Rate", X: Axis{Unit: Elapsed}, Y: Axis{Label: "requests per second"}, Steps: true,
		Lines:  []Series{{Name: "sent", X: []float64{0, 1, 2}, Y: []float64{90, 110, 100}}},
		Limits: []Limit{{Name: "limit", Color: Red, Y: 105}},
	}
	svg, err := c.SVG()
	fmt.Println(strings.HasPrefix(string(svg),
		`<svg xmlns="http://www.w3.org/2000/svg" class="chart" role="img" aria-label="Rate" viewBox="0 0 760 260">`), err)
	// Output: true <nil>
}

// count is 0, 1, … n-1.
func count(n int) []float64 {
	x := make([]float64, n)
	for i := range x {
		x[i] = float64(i)
	}
	return x
}

// each is f of every x.
func each(x []float64, f func(float64) float64) []float64 {
	y := make([]float64, len(x))
	for i := range x {
		y[i] = f(x[i])
	}
	return y
}

func constant(v float64) func(float64) float64 { return func(float64) float64 { return v } }

var nan = math.NaN()

// samples are charts of every kind of mark, axis and edge.
func samples() map[string]Chart {
	x := count(120)
	burst := each(x, func(t float64) float64 {
		if math.Mod(t, 60) >= 55 {
			return 500
		}
		return 100
	})
	edges := each(count(13), func(i float64) float64 { return 1e-4 * math.Pow(10, i/4) })
	shares := each(count(200), func(i float64) float64 { return 1 - math.Pow(10, -i/50) })
	noon := float64(time.Date(2026, 1, 19, 12, 0, 0, 0, time.UTC).Unix())
	clock := each(count(61), func(i float64) float64 { return noon + 60*i })
	return map[string]Chart{
		"lines": {
			Title: "Rate", Steps: true, X: Axis{Unit: Elapsed}, Y: Axis{Label: "requests per second"},
			Lines:  []Series{{Name: "sent", X: x, Y: burst}, {Name: "asked", Color: Grey, Dashed: true, X: x, Y: burst}},
			Spans:  []Span{{Name: "peak", Color: Violet, From: 55, To: 60}, {Name: "peak", Color: Violet, From: 115, To: 120}},
			Limits: []Limit{{Name: "limit 450/s", Color: Red, Y: 450}},
		},
		"stack": {
			Title: "Outcomes", Steps: true, X: Axis{Unit: Elapsed},
			Stack: []Series{
				{Name: "success", Color: Green, X: x, Y: each(burst, func(v float64) float64 { return min(v, 300) })},
				{Name: "rate limited", Color: Amber, X: x, Y: each(burst, func(v float64) float64 { return max(0, v-300) })},
			},
		},
		"log with gaps": {
			Title: "Latency", X: Axis{Unit: Elapsed}, Y: Axis{Unit: Seconds, Scale: Log},
			Lines: []Series{{Name: "p99", Color: Red, X: count(8), Y: []float64{0.001, 0.002, nan, 0.003, 0, 0.9, 0.8, 0.7}}},
			Bands: []Band{{Name: "p50 to p99", X: count(4), Low: []float64{0.0005, 0.0005, nan, 0.001},
				High: []float64{0.001, 0.002, 0.002, 0.003}}},
		},
		"bars": {
			Title: "Latency distribution", X: Axis{Unit: Seconds, Scale: Log, Label: "latency"},
			Bars: []Bars{{Name: "success", Color: Green, Edges: edges,
				Heights: each(count(12), func(i float64) float64 { return 100 * i })}},
		},
		"nines": {
			Title: "Percentiles", X: Axis{Unit: Share, Scale: Percentiles}, Y: Axis{Unit: Seconds, Scale: Log},
			Lines: []Series{{Name: "latency", X: shares,
				Y: each(shares, func(p float64) float64 { return 0.001 / math.Sqrt(1-p) })}},
		},
		"clock": {
			Title: "Forecast <now>", X: Axis{Unit: Clock}, Width: 400, Height: 200,
			Bands:  []Band{{Name: "90 %", X: clock, Low: each(clock, constant(80)), High: each(clock, constant(150))}},
			Lines:  []Series{{Name: "median & more", X: clock, Y: each(clock, constant(100))}},
			Limits: []Limit{{Name: "recommended", Color: Amber, Y: 200}},
		},
		"nothing": {Title: "Nothing", X: Axis{Unit: Elapsed, Max: 60}, Y: Axis{Unit: Seconds, Scale: Log}},
		"one value": {Title: "One", Steps: true, X: Axis{Unit: Elapsed, Max: 0.5},
			Lines: []Series{{X: []float64{0}, Y: []float64{50}}}},
		"a dot": {Title: "Dot", Lines: []Series{{X: count(3), Y: []float64{nan, 1, nan}}}},
	}
}

// TestOutlines holds what is drawn against what was looked at in a browser: the
// texts in order, and how many shapes there are of each colour.
func TestOutlines(t *testing.T) {
	for name, c := range samples() {
		svg, err := c.SVG()
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		testkit.Golden(t, strings.ReplaceAll(name, " ", "-")+".txt", outline(t, name, svg))
	}
}

// outline reads a drawing as XML and says what is in it.
func outline(t *testing.T, name string, svg []byte) string {
	t.Helper()
	var texts []string
	shapes := map[string]int{}
	style := false
	d := xml.NewDecoder(bytes.NewReader(svg))
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("%s is not XML: %v in\n%s", name, err, svg)
		}
		switch token := token.(type) {
		case xml.StartElement:
			style = token.Name.Local == "style"
			for _, a := range token.Attr {
				if token.Name.Local == "path" && a.Name.Local == "style" {
					shapes[a.Value]++
				}
			}
		case xml.CharData:
			if text := strings.TrimSpace(string(token)); text != "" && !style {
				texts = append(texts, text)
			}
		}
	}
	var b strings.Builder
	for _, text := range texts {
		fmt.Fprintln(&b, text)
	}
	for _, shape := range slices.Sorted(maps.Keys(shapes)) {
		fmt.Fprintln(&b, shapes[shape], shape)
	}
	return b.String()
}

// No colour is left that the style sheet does not know, and nothing that a page
// would have to fetch.
func TestSelfContained(t *testing.T) {
	for name, c := range samples() {
		svg := testkit.Must(c.SVG())(t)
		_, drawing, _ := strings.Cut(string(svg), "</style>")
		for _, bad := range []string{"#A1", "#B1", "#B2", "#B3", "#B4", "#000000", "Liberation", "href", "url(", "NaN",
			"Inf"} {
			if strings.Contains(drawing, bad) {
				t.Errorf("%s contains %q", name, bad)
			}
		}
	}
}

// Charts are readable with any font: the browser may have none of those that they name.
func TestAnyFont(t *testing.T) {
	svgs := map[string][]byte{}
	for name, c := range samples() {
		svgs[name] = testkit.Must(c.SVG())(t)
	}
	wide := samples()["lines"]
	wide.Title, wide.Y.Label = "Requests that were answered in time", "requests per second, of all clients together"
	for i := range 12 {
		wide.Lines = append(wide.Lines, Series{Name: fmt.Sprintf("a little illustration %d", i), X: []float64{0, 1},
			Y: []float64{1e9, 2e9}})
	}
	svgs["wide"] = testkit.Must(wide.SVG())(t)
	for _, family := range []string{`"DejaVu Sans"`, `"DejaVu Sans Mono",monospace`, `"DejaVu Serif",serif`,
		`"Liberation Sans"`} {
		for _, fault := range charttest.Overlaps(t, family, svgs) {
			t.Errorf("with the font %s, %s", family, fault)
		}
	}
}

// The same values give the same bytes, from however many goroutines.
func TestSameBytes(t *testing.T) {
	c := samples()["lines"]
	want := testkit.Must(c.SVG())(t)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			if got, err := c.SVG(); err != nil || !bytes.Equal(got, want) {
				t.Errorf("another drawing of the same values differs, error %v", err)
			}
		})
	}
	all.Wait()
}

func TestRefused(t *testing.T) {
	x := count(3)
	for _, c := range []struct {
		chart Chart
		want  string
	}{
		{Chart{Lines: []Series{{Name: "a", X: x, Y: x[:2]}}}, `"a" has 3 places and 2 values`},
		{Chart{Lines: []Series{{Name: "a", X: []float64{0, 2, 1}, Y: x}}}, `place 2 of "a" is 1: places must ascend`},
		{Chart{Lines: []Series{{Name: "a", X: []float64{0, nan, 1}, Y: x}}}, `place 1 of "a" is NaN`},
		{Chart{Lines: []Series{{Name: "a", X: x, Y: []float64{0, math.Inf(1), 1}}}}, `value 1 of "a" is infinite`},
		{Chart{Lines: []Series{{Name: "a", X: count(valuesMax + 1), Y: count(valuesMax + 1)}}},
			`has 100001 values, at most 100000`},
		{Chart{Bands: []Band{{Name: "b", X: x, Low: x, High: x[:1]}}}, `"b" has 3 places and 1 values`},
		{Chart{Bars: []Bars{{Name: "h", Edges: x, Heights: x}}}, `"h" has 3 places and 4 values`},
		{Chart{Stack: []Series{{Name: "a", X: x, Y: x}, {Name: "b", X: x[:2], Y: x[:2]}}},
			`"b" has 2 values, the area below it 3`},
		{Chart{Limits: []Limit{{Name: "l", Y: nan}}}, `the limit "l" is NaN`},
		{Chart{Spans: []Span{{Name: "s", From: 2, To: 1}}}, `"s" reaches from 2 to 1`},
		{Chart{X: Axis{Min: 2, Max: 1}}, "an axis must not reach from 2 to 1"},
		{Chart{Width: -1}, "the size must be from 0 to 10000 pixels"},
		{Chart{Height: nan}, "the size must be from 0 to 10000 pixels"},
	} {
		c.chart.Title = "T"
		svg, err := c.chart.SVG()
		if err == nil || svg != nil || !strings.HasPrefix(err.Error(), `draw chart "T": `) ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want an error with %q", c.chart, err, c.want)
		}
	}
	atBound := Chart{Lines: []Series{{X: count(valuesMax), Y: count(valuesMax)}}}
	if err := atBound.validate(); err != nil {
		t.Errorf("as many values as may be: %v", err)
	}
}

func TestTicks(t *testing.T) {
	for _, c := range []struct {
		name      string
		axis      Axis
		low, high float64
		want      string
	}{
		{"numbers", Axis{}, 0, 500, "0|100|200|300|400|500"},
		{"thousands", Axis{}, 0, 4000, "0|1,000|2,000|3,000|4,000"},
		{"ten thousands", Axis{}, 0, 60_000, "0|20k|40k|60k"},
		{"millions", Axis{}, 0, 3e6, "0|1M|2M|3M"},
		{"fractions", Axis{}, 0, 0.04, "0|0.01|0.02|0.03|0.04"},
		{"negative", Axis{}, -100, 100, "−100|−50|0|50|100"},
		{"all the same", Axis{}, 5, 5, "5|5.2|5.4|5.6|5.8|6"},
		{"spans", Axis{Unit: Seconds}, 0, 0.002, "0|500 µs|1 ms|1.5 ms|2 ms"},
		{"shares", Axis{Unit: Share}, 0, 1, "0 %|20 %|40 %|60 %|80 %|100 %"},
		{"a minute", Axis{Unit: Elapsed}, 0, 60, "0|15 s|30 s|45 s|60 s"},
		{"a blink", Axis{Unit: Elapsed}, 0, 0.5, "0|0.1 s|0.2 s|0.3 s|0.4 s|0.5 s"},
		{"five minutes", Axis{Unit: Elapsed}, 0, 300, "0|1 min|2 min|3 min|4 min|5 min"},
		{"three and a half", Axis{Unit: Elapsed}, 0, 200, "0|1 min|2 min|3 min"},
		{"an hour", Axis{Unit: Elapsed}, 0, 3600, "0|15 min|30 min|45 min|60 min"},
		{"three hours", Axis{Unit: Elapsed}, 0, 3 * 3600, "0|1 h|2 h|3 h"},
		{"two hours", Axis{Unit: Elapsed}, 0, 7200, "0|0:30 h|1:00 h|1:30 h|2:00 h"},
		{"a week", Axis{Unit: Elapsed}, 0, 7 * 86400, "0|48 h|96 h|144 h"},
		{"the clock", Axis{Unit: Clock}, 0, 7200, "00:00|00:30|01:00|01:30|02:00"},
		{"its seconds", Axis{Unit: Clock}, 0, 60, "00:00:00|00:00:15|00:00:30|00:00:45|00:01:00"},
		{"two days", Axis{Unit: Clock}, 0, 2 * 86400, "1 Jan 00:00|1 Jan 12:00|2 Jan 00:00|2 Jan 12:00|3 Jan 00:00"},
		{"a fortnight", Axis{Unit: Clock}, 0, 12 * 86400, "1 Jan|6 Jan|11 Jan"},
		{"decades", Axis{Scale: Log, Unit: Seconds}, 1e-4, 10, "100 µs|1 ms|10 ms|100 ms|1 s|10 s"},
		{"few decades", Axis{Scale: Log, Unit: Seconds}, 1e-3, 1, "1 ms|3 ms|10 ms|30 ms|100 ms|300 ms|1 s"},
		{"one decade", Axis{Scale: Log, Unit: Seconds}, 0.0012, 0.011, "1 ms|2 ms|5 ms|10 ms|20 ms"},
		{"one value", Axis{Scale: Log, Unit: Seconds}, 0.001, 0.001, "500 µs|1 ms|2 ms"},
		{"nines", Axis{Scale: Percentiles, Unit: Share}, 0.2, 0.9999, "0 %|50 %|90 %|99 %|99.9 %|99.99 %"},
		{"no values", Axis{Scale: Log}, math.Inf(1), math.Inf(-1), "0.001|0.003|0.01|0.03|0.1|0.3|1"},
	} {
		r := newRuler(c.axis, c.low, c.high, 5)
		var got []string
		for _, tick := range r.ticks {
			got = append(got, tick.Label)
		}
		if strings.Join(got, "|") != c.want {
			t.Errorf("%s: labels %s, want %s", c.name, strings.Join(got, "|"), c.want)
		}
	}
}

// However small or large the values, an axis has a few labels, in order, and
// every value has its place between its ends.
func TestRulerLaws(t *testing.T) {
	for _, unit := range []Unit{Number, Seconds, Elapsed, Share} {
		for _, scale := range []Scale{Linear, Log} {
			for e := -9.0; e <= 9; e += 0.37 {
				high := math.Pow(10, e)
				r := newRuler(Axis{Unit: unit, Scale: scale}, high/7, high, 6)
				if len(r.ticks) < 2 || len(r.ticks) > 14 {
					t.Errorf("unit %d, scale %d up to %g: %d labels", unit, scale, high, len(r.ticks))
				}
				for i := 1; i < len(r.ticks); i++ {
					if r.ticks[i].Value <= r.ticks[i-1].Value {
						t.Errorf("unit %d, scale %d up to %g: label %d is no greater than the one before", unit, scale, high, i)
					}
				}
				for _, v := range []float64{high / 7, high / 2, high} {
					if at := r.Normalize(r.low, r.high, v); at < 0 || at > 1+1e-9 {
						t.Errorf("unit %d, scale %d up to %g: %g lies at %g", unit, scale, high, v, at)
					}
				}
			}
		}
	}
}

// The ticks of a linear axis are multiples of one round number: 1, 2, 2.5 or 5 times a power of ten,
// and of times a usual number of seconds, minutes or hours, or such a number of days. No two have the
// same label.
func TestRoundTicks(t *testing.T) {
	round := func(v float64) bool {
		for _, f := range []float64{1, 2, 2.5, 5} {
			if e := math.Log10(v / f); math.Abs(e-math.Round(e)) < 1e-9 {
				return true
			}
		}
		return false
	}
	usual := []float64{1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200}
	for _, unit := range []Unit{Number, Seconds, Elapsed, Clock, Share} {
		for e := -6.0; e <= 9; e += 0.137 {
			high := math.Pow(10, e)
			r := newRuler(Axis{Unit: unit}, 0, high, 6)
			timed := unit == Elapsed || unit == Clock
			var step float64
			for i, tick := range r.ticks[1:] {
				at := tick.Value
				if i == 0 {
					step = at
				}
				if math.Abs(at/step-float64(i+1)) > 1e-9 {
					t.Errorf("unit %d up to %g: the ticks are not evenly spaced", unit, high)
				}
				if tick.Label == r.ticks[i].Label {
					t.Errorf("unit %d up to %g: two ticks have the label %s", unit, high, tick.Label)
				}
			}
			switch {
			case step == 0 && unit == Clock && high < 1: // instants are shown to the second
			case timed && step >= 86400 && round(step/86400), timed && slices.Contains(usual, step), (!timed || step < 1) &&
				round(step):
			default:
				t.Errorf("unit %d up to %g: the ticks are %g apart, which is no round number", unit, high, step)
			}
		}
	}
}

func BenchmarkSVG(b *testing.B) {
	c := samples()["lines"]
	for b.Loop() {
		if _, err := c.SVG(); err != nil {
			b.Fatal(err)
		}
	}
}
