package serve

import (
	"math"
	"time"

	"weir/advisor/core"
	"weir/advisor/series"
	"weir/internal/chart"
)

// The size of a plot in pixels; wide ones have a row to themselves.
const (
	wideWidth  = 1230
	wideHeight = 300
	halfWidth  = 590
	halfHeight = 230
)

// A painter turns a look into plots. Times are in the zone's offset at the newest moment.
type painter struct {
	*look
	offset float64 // of the zone, in seconds
	zone   string
}

func newPainter(l *look, zone *time.Location) *painter {
	name, offset := l.Newest.In(zone).Zone()
	return &painter{l, float64(offset), name}
}

// x returns the position of a time.
func (p *painter) x(at time.Time) float64 { return float64(at.UnixMilli())/1e3 + p.offset }

// plots returns the plots of the page in order; none without history.
func (p *painter) plots() []chart.Chart {
	if len(p.minutes) == 0 {
		return nil
	}
	all := []chart.Chart{p.hours()}
	if p.Age > hoursSpan {
		all = append(all, p.course())
	}
	for i := range all {
		all[i].Width, all[i].Height = wideWidth, wideHeight
	}
	halves := []chart.Chart{p.capacity(), p.latency()}
	for i := range halves {
		halves[i].Width, halves[i].Height = halfWidth, halfHeight
	}
	return append(all, halves...)
}

// over returns a time axis.
func (p *painter) over(from, to time.Time) chart.Axis {
	return chart.Axis{Unit: chart.Clock, Min: p.x(from), Max: p.x(to), Label: p.zone}
}

// hours plots the last hours and the next one.
func (p *painter) hours() chart.Chart {
	from := p.Newest.Add(-min(max(p.Age, 10*time.Minute), hoursSpan))
	c := chart.Chart{Title: "The last hours and the next", X: p.over(from, p.Newest.Add(forecastMax)), Y: chart.Axis{Label: "requests per second"}}
	c.Spans = append(p.markers(from), chart.Span{Name: "the next hour", Tone: chart.Grey, From: p.x(p.Newest), To: p.x(p.Newest.Add(forecastMax))})
	observed := p.rates("arriving", chart.Blue, p.minutes)
	band, median := p.forecast()
	if len(median.X) > 0 {
		c.Bands = []chart.Band{p.believedBand(from), band}
	}
	inForce := p.marked("limit in force", chart.Amber, p.track, core.ValLimit)
	advised := p.marked("recommended", chart.Red, p.track, core.ValRecommended)
	advised.Dashed = true
	c.Lines = []chart.Series{observed, median, inForce, advised}
	c.Y.Max = ceiling(highest(observed.Y, band.High, median.Y), highest(inForce.Y, advised.Y))
	return c
}

// ceiling keeps limits far above all traffic out of the plot, so that the traffic is
// visible.
func ceiling(traffic, limits float64) float64 {
	const times = 3
	if traffic <= 0 {
		traffic = 1
	}
	return 1.05 * max(traffic, min(limits, times*traffic))
}

func highest(rows ...[]float64) (most float64) {
	for _, row := range rows {
		for _, v := range row {
			if v > most {
				most = v
			}
		}
	}
	return most
}

// forecast returns the next hour: the band with nine of ten values, and the median.
func (p *painter) forecast() (band chart.Band, median chart.Series) {
	band = chart.Band{Name: "nine of ten forecasts", Tone: chart.Violet}
	median = chart.Series{Name: "forecast", Tone: chart.Violet}
	for i, q := range p.ahead {
		x := p.x(p.Newest.Add(time.Duration(i+1) * forecastStep))
		band.X, median.X = append(band.X, x), append(median.X, x)
		band.Low, band.High = append(band.Low, q.Q05), append(band.High, q.Q95)
		median.Y = append(median.Y, q.Q50)
	}
	return band, median
}

// believedBand returns the estimated capacity.
func (p *painter) believedBand(from time.Time) chart.Band {
	b := chart.Band{Name: "estimated capacity of the target", Tone: chart.Green}
	for _, m := range p.track {
		if m.At >= from.Unix() {
			b.X = append(b.X, p.place(m))
			b.Low, b.High = append(b.Low, float64(m.Values[core.ValLow])), append(b.High, float64(m.Values[core.ValHigh]))
		}
	}
	return b
}

// place returns the position of a mark: the end of its slot, but not after the newest.
func (p *painter) place(m core.Mark) float64 {
	return min(float64(m.At)+60+p.offset, p.x(p.Newest))
}

// rates returns a series from the rows of a history, with gaps.
func (p *painter) rates(name string, tone chart.Tone, rows []series.Row) chart.Series {
	s := chart.Series{Name: name, Tone: tone}
	for _, r := range rows {
		s.X = append(s.X, p.x(r.At))
		if r.Coverage > 0 {
			s.Y = append(s.Y, r.Rate)
		} else {
			s.Y = append(s.Y, math.NaN())
		}
	}
	return s
}

// marked returns a series from one value of the track.
func (p *painter) marked(name string, tone chart.Tone, marks []core.Mark, value int) chart.Series {
	s := chart.Series{Name: name, Tone: tone}
	for _, m := range marks {
		x := p.place(m)
		if n := len(s.X); n > 0 && x-s.X[n-1] > gapMin { // no reports
			s.X, s.Y = append(s.X, s.X[n-1]), append(s.Y, math.NaN())
		}
		s.X, s.Y = append(s.X, x), append(s.Y, float64(m.Values[value]))
	}
	return s
}

// gapMin is the length in seconds from which a silence is a gap in a line.
const gapMin = 2.5 * 3600

// markers returns the lasting changes of level.
func (p *painter) markers(from time.Time) (spans []chart.Span) {
	for _, s := range p.Shifts {
		name, tone := "the level fell", chart.Green
		if s.Up {
			name, tone = "the level rose", chart.Red
		}
		if s.At.After(from) && !s.At.After(p.Newest) {
			// as wide as a line, to be visible
			width := p.Newest.Sub(from).Seconds() / wideWidth
			spans = append(spans, chart.Span{Name: name, Tone: tone, From: p.x(s.At) - 2*width, To: p.x(s.At) + 2*width})
		}
	}
	return spans
}

// course plots the last days.
func (p *painter) course() chart.Chart {
	from := p.Newest.Add(-min(p.Age, daysSpan))
	c := chart.Chart{Title: "The last days", X: p.over(from, p.Newest), Y: chart.Axis{Label: "requests per second"}, Spans: p.markers(from)}
	observed := p.rates("arriving", chart.Blue, p.days)
	inForce := p.marked("limit in force", chart.Amber, p.daily, core.ValLimit)
	c.Lines = []chart.Series{observed, inForce}
	c.Y.Max = ceiling(highest(observed.Y), highest(inForce.Y))
	return c
}

// limited returns an axis of the last day, or of the part that is known.
func (p *painter) limited() chart.Axis {
	from := p.Newest.Add(-limitSpan)
	if len(p.track) > 0 {
		from = time.Unix(max(p.track[0].At, from.Unix()), 0)
	}
	if p.Newest.Sub(from) < 10*time.Minute {
		from = p.Newest.Add(-10 * time.Minute)
	}
	return p.over(from, p.Newest)
}

// capacity plots the load on the target and its estimated capacity.
func (p *painter) capacity() chart.Chart {
	c := chart.Chart{Title: "Capacity", X: p.limited(), Y: chart.Axis{Label: "requests per second at the target"}}
	middle := p.marked("estimate", chart.Green, p.track, core.ValMid)
	forwarded := p.marked("forwarded", chart.Blue, p.track, core.ValForwarded)
	band := p.believedBand(time.Unix(0, 0))
	band.Name = "probable (20 % to 80 %)"
	c.Bands = []chart.Band{band}
	c.Lines = []chart.Series{forwarded, middle}
	c.Y.Max = ceiling(highest(forwarded.Y, middle.Y), highest(band.High))
	return c
}

// latency plots the latency of the target.
func (p *painter) latency() chart.Chart {
	c := chart.Chart{Title: "Latency", X: p.limited(), Y: chart.Axis{Label: "p95 of what was forwarded", Unit: chart.Seconds, Scale: chart.Log}}
	p95 := p.marked("p95", chart.Blue, p.track, core.ValP95)
	c.Lines = []chart.Series{p95}
	if !math.IsInf(p.SLO, 1) && highest(p95.Y) > 0 {
		c.Limits = []chart.Limit{{Name: "still good", Tone: chart.Red, Y: p.SLO}}
	}
	return c
}
