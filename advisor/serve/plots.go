package serve

import (
	"math"
	"time"

	"weir/advisor/core"
	"weir/advisor/series"
	"weir/internal/data/chart"
)

// The size of a plot in pixels; wide ones have a row to themselves.
const (
	wideWidth  = 1230
	wideHeight = 300
	halfWidth  = 590
	halfHeight = 230
)

// x returns the position of a time, in the zone's offset at the newest moment.
func (p *pageData) x(at time.Time) float64 {
	_, offset := p.Newest.In(p.Zone).Zone()
	return float64(at.UnixMilli())/1e3 + float64(offset)
}

// plots returns the plots of the page in order; none without history.
func (p *pageData) plots() []chart.Chart {
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
func (p *pageData) over(from, to time.Time) chart.Axis {
	name, _ := p.Newest.In(p.Zone).Zone()
	return chart.Axis{Unit: chart.Clock, Min: p.x(from), Max: p.x(to), Label: name}
}

// hours plots the last hours and the next one.
func (p *pageData) hours() chart.Chart {
	from := p.Newest.Add(-min(max(p.Age, 10*time.Minute), hoursSpan))
	c := chart.Chart{Title: "The last hours and the next", X: p.over(from, p.Newest.Add(forecastMax)),
		Y: chart.Axis{Label: "requests per second"}}
	c.Spans = append(p.markers(from), chart.Span{Name: "the next hour", Color: chart.Grey, From: p.x(p.Newest),
		To: p.x(p.Newest.Add(forecastMax))})
	observed := p.rates("arriving", chart.Blue, p.minutes)
	band, median := p.forecast()
	if len(median.X) > 0 {
		c.Bands = []chart.Band{p.believedBand(from), band}
	}
	inForce := p.marked("limit in force", chart.Amber, p.track, core.LimitValue)
	advised := p.marked("recommended", chart.Red, p.track, core.RecommendedValue)
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
func (p *pageData) forecast() (band chart.Band, median chart.Series) {
	band = chart.Band{Name: "nine of ten forecasts", Color: chart.Violet}
	median = chart.Series{Name: "forecast", Color: chart.Violet}
	for i, q := range p.ahead {
		x := p.x(p.Newest.Add(time.Duration(i+1) * forecastStep))
		band.X, median.X = append(band.X, x), append(median.X, x)
		band.Low, band.High = append(band.Low, q.Q05), append(band.High, q.Q95)
		median.Y = append(median.Y, q.Q50)
	}
	return band, median
}

// believedBand returns the estimated capacity.
func (p *pageData) believedBand(from time.Time) chart.Band {
	b := chart.Band{Name: "estimated capacity of the target", Color: chart.Green}
	for _, m := range p.track {
		if m.At >= from.Unix() {
			b.X = append(b.X, p.place(m))
			b.Low, b.High = append(b.Low, float64(m.Values[core.LowValue])), append(b.High, float64(m.Values[core.HighValue]))
		}
	}
	return b
}

// place returns the position of a mark: the end of its slot, but not after the newest.
func (p *pageData) place(m core.SlotValues) float64 {
	return min(p.x(time.Unix(m.At+60, 0)), p.x(p.Newest))
}

// rates returns a series from the rows of a history, with gaps.
func (p *pageData) rates(name string, color chart.Color, rows []series.Row) chart.Series {
	s := chart.Series{Name: name, Color: color}
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
func (p *pageData) marked(name string, color chart.Color, points []core.SlotValues, value int) chart.Series {
	s := chart.Series{Name: name, Color: color}
	for _, m := range points {
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
func (p *pageData) markers(from time.Time) (spans []chart.Span) {
	for _, s := range p.Shifts {
		name, color := "the level fell", chart.Green
		if s.Up {
			name, color = "the level rose", chart.Red
		}
		if s.At.After(from) && !s.At.After(p.Newest) {
			// as wide as a line, to be visible
			width := p.Newest.Sub(from).Seconds() / wideWidth
			spans = append(spans, chart.Span{Name: name, Color: color, From: p.x(s.At) - 2*width, To: p.x(s.At) + 2*width})
		}
	}
	return spans
}

// course plots the last days.
func (p *pageData) course() chart.Chart {
	from := p.Newest.Add(-min(p.Age, daysSpan))
	c := chart.Chart{Title: "The last days", X: p.over(from, p.Newest), Y: chart.Axis{Label: "requests per second"},
		Spans: p.markers(from)}
	observed := p.rates("arriving", chart.Blue, p.days)
	inForce := p.marked("limit in force", chart.Amber, p.daily, core.LimitValue)
	c.Lines = []chart.Series{observed, inForce}
	c.Y.Max = ceiling(highest(observed.Y), highest(inForce.Y))
	return c
}

// limited returns an axis of the last day, or of the part that is known.
func (p *pageData) limited() chart.Axis {
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
func (p *pageData) capacity() chart.Chart {
	c := chart.Chart{Title: "Capacity", X: p.limited(), Y: chart.Axis{Label: "requests per second at the target"}}
	middle := p.marked("estimate", chart.Green, p.track, core.MidValue)
	forwarded := p.marked("forwarded", chart.Blue, p.track, core.ForwardedValue)
	band := p.believedBand(time.Unix(0, 0))
	band.Name = "probable (20 % to 80 %)"
	c.Bands = []chart.Band{band}
	c.Lines = []chart.Series{forwarded, middle}
	c.Y.Max = ceiling(highest(forwarded.Y, middle.Y), highest(band.High))
	return c
}

// latency plots the latency of the target.
func (p *pageData) latency() chart.Chart {
	c := chart.Chart{Title: "Latency", X: p.limited(),
		Y: chart.Axis{Label: "p95 of what was forwarded", Unit: chart.Seconds, Scale: chart.Log}}
	p95 := p.marked("p95", chart.Blue, p.track, core.P95Value)
	c.Lines = []chart.Series{p95}
	if !math.IsInf(p.SLO, 1) && highest(p95.Y) > 0 {
		c.Limits = []chart.Limit{{Name: "still good", Color: chart.Red, Y: p.SLO}}
	}
	return c
}
