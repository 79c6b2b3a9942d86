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
func (l *pageData) x(at time.Time) float64 {
	_, offset := l.Newest.In(l.Zone).Zone()
	return float64(at.UnixMilli())/1e3 + float64(offset)
}

// plots returns the plots of the page in order; none without history.
func (l *pageData) plots() []chart.Chart {
	if len(l.minutes) == 0 {
		return nil
	}
	all := []chart.Chart{l.hours()}
	if l.Age > hoursSpan {
		all = append(all, l.course())
	}
	for i := range all {
		all[i].Width, all[i].Height = wideWidth, wideHeight
	}
	halves := []chart.Chart{l.capacity(), l.latency()}
	for i := range halves {
		halves[i].Width, halves[i].Height = halfWidth, halfHeight
	}
	return append(all, halves...)
}

// over returns a time axis.
func (l *pageData) over(from, to time.Time) chart.Axis {
	name, _ := l.Newest.In(l.Zone).Zone()
	return chart.Axis{Unit: chart.Clock, Min: l.x(from), Max: l.x(to), Label: name}
}

// hours plots the last hours and the next one.
func (l *pageData) hours() chart.Chart {
	from := l.Newest.Add(-min(max(l.Age, 10*time.Minute), hoursSpan))
	c := chart.Chart{Title: "The last hours and the next", X: l.over(from, l.Newest.Add(forecastMax)),
		Y: chart.Axis{Label: "requests per second"}}
	c.Spans = append(l.markers(from), chart.Span{Name: "the next hour", Color: chart.Grey, From: l.x(l.Newest),
		To: l.x(l.Newest.Add(forecastMax))})
	observed := l.rates("arriving", chart.Blue, l.minutes)
	band, median := l.forecast()
	if len(median.X) > 0 {
		c.Bands = []chart.Band{l.believedBand(from), band}
	}
	inForce := l.marked("limit in force", chart.Amber, l.track, core.LimitValue)
	advised := l.marked("recommended", chart.Red, l.track, core.RecommendedValue)
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
func (l *pageData) forecast() (band chart.Band, median chart.Series) {
	band = chart.Band{Name: "nine of ten forecasts", Color: chart.Violet}
	median = chart.Series{Name: "forecast", Color: chart.Violet}
	for i, q := range l.ahead {
		x := l.x(l.Newest.Add(time.Duration(i+1) * forecastStep))
		band.X, median.X = append(band.X, x), append(median.X, x)
		band.Low, band.High = append(band.Low, q.Q05), append(band.High, q.Q95)
		median.Y = append(median.Y, q.Q50)
	}
	return band, median
}

// believedBand returns the estimated capacity.
func (l *pageData) believedBand(from time.Time) chart.Band {
	b := chart.Band{Name: "estimated capacity of the target", Color: chart.Green}
	for _, m := range l.track {
		if m.At >= from.Unix() {
			b.X = append(b.X, l.place(m))
			b.Low, b.High = append(b.Low, float64(m.Values[core.LowValue])), append(b.High, float64(m.Values[core.HighValue]))
		}
	}
	return b
}

// place returns the position of a mark: the end of its slot, but not after the newest.
func (l *pageData) place(m core.SlotValues) float64 {
	return min(l.x(time.Unix(m.At+60, 0)), l.x(l.Newest))
}

// rates returns a series from the rows of a history, with gaps.
func (l *pageData) rates(name string, color chart.Color, rows []series.Row) chart.Series {
	s := chart.Series{Name: name, Color: color}
	for _, r := range rows {
		s.X = append(s.X, l.x(r.At))
		if r.Coverage > 0 {
			s.Y = append(s.Y, r.Rate)
		} else {
			s.Y = append(s.Y, math.NaN())
		}
	}
	return s
}

// marked returns a series from one value of the track.
func (l *pageData) marked(name string, color chart.Color, points []core.SlotValues, value int) chart.Series {
	s := chart.Series{Name: name, Color: color}
	for _, m := range points {
		x := l.place(m)
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
func (l *pageData) markers(from time.Time) (spans []chart.Span) {
	for _, s := range l.Shifts {
		name, color := "the level fell", chart.Green
		if s.Up {
			name, color = "the level rose", chart.Red
		}
		if s.At.After(from) && !s.At.After(l.Newest) {
			// as wide as a line, to be visible
			width := l.Newest.Sub(from).Seconds() / wideWidth
			spans = append(spans, chart.Span{Name: name, Color: color, From: l.x(s.At) - 2*width, To: l.x(s.At) + 2*width})
		}
	}
	return spans
}

// course plots the last days.
func (l *pageData) course() chart.Chart {
	from := l.Newest.Add(-min(l.Age, daysSpan))
	c := chart.Chart{Title: "The last days", X: l.over(from, l.Newest), Y: chart.Axis{Label: "requests per second"},
		Spans: l.markers(from)}
	observed := l.rates("arriving", chart.Blue, l.days)
	inForce := l.marked("limit in force", chart.Amber, l.daily, core.LimitValue)
	c.Lines = []chart.Series{observed, inForce}
	c.Y.Max = ceiling(highest(observed.Y), highest(inForce.Y))
	return c
}

// limited returns an axis of the last day, or of the part that is known.
func (l *pageData) limited() chart.Axis {
	from := l.Newest.Add(-limitSpan)
	if len(l.track) > 0 {
		from = time.Unix(max(l.track[0].At, from.Unix()), 0)
	}
	if l.Newest.Sub(from) < 10*time.Minute {
		from = l.Newest.Add(-10 * time.Minute)
	}
	return l.over(from, l.Newest)
}

// capacity plots the load on the target and its estimated capacity.
func (l *pageData) capacity() chart.Chart {
	c := chart.Chart{Title: "Capacity", X: l.limited(), Y: chart.Axis{Label: "requests per second at the target"}}
	middle := l.marked("estimate", chart.Green, l.track, core.MidValue)
	forwarded := l.marked("forwarded", chart.Blue, l.track, core.ForwardedValue)
	band := l.believedBand(time.Unix(0, 0))
	band.Name = "probable (20 % to 80 %)"
	c.Bands = []chart.Band{band}
	c.Lines = []chart.Series{forwarded, middle}
	c.Y.Max = ceiling(highest(forwarded.Y, middle.Y), highest(band.High))
	return c
}

// latency plots the latency of the target.
func (l *pageData) latency() chart.Chart {
	c := chart.Chart{Title: "Latency", X: l.limited(),
		Y: chart.Axis{Label: "p95 of what was forwarded", Unit: chart.Seconds, Scale: chart.Log}}
	p95 := l.marked("p95", chart.Blue, l.track, core.P95Value)
	c.Lines = []chart.Series{p95}
	if !math.IsInf(l.SLO, 1) && highest(p95.Y) > 0 {
		c.Limits = []chart.Limit{{Name: "still good", Color: chart.Red, Y: l.SLO}}
	}
	return c
}
