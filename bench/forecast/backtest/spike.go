package backtest

import (
	"math"
	"slices"
	"time"
)

// Spikes counts how well alarms predict sudden rises. A rise begins when the rate reaches
// 1.5 times its median of the last quarter of an hour. An alarm begins when a forecast
// reaches that, and the previous one did not. It is right if a rise begins after it, within
// the horizon and three more minutes, in whole slots.
type Spikes struct {
	Rises     int
	Announced int           // rises with an alarm before them
	Lead      time.Duration // from the first such alarm to the rise, median
	Alarms    int
	Right     int     // of the alarms; Right/Alarms is the precision
	InAlarm   float64 // share of the forecasts that reach the rise
}

const (
	riseBy     = 1.5
	medianSpan = 15 * time.Minute
	lateBy     = 3 * time.Minute
)

// Spikes counts the alarms of the 95 % quantile of horizon h over a span of origins.
func (r *Run) Spikes(h int, span Span) Spikes {
	y, width := r.Trace.Rates, max(3, int(medianSpan/r.Trace.Step))
	window := r.slots(h) + int(lateBy/r.Trace.Step)
	var out Spikes
	var rises, alarms []int // slots at which a rise begins, origins at which an alarm begins
	rising, alarmed, made, in := false, false, 0, 0
	for i := max(span.From, width); i < min(span.To, len(y)); i++ {
		before, now := median(y[i-width:i]), median(y[i-width+1:i+1])
		if y[i] != y[i] || before != before {
			continue
		}
		rise := before > 0 && y[i] >= riseBy*before
		if rise && !rising {
			rises = append(rises, i)
		}
		alarm := now > 0 && r.Forecasts[h][i].Q95 >= riseBy*now
		if alarm && !alarmed {
			alarms = append(alarms, i)
		}
		made++
		if alarm {
			in++
		}
		rising, alarmed = rise, alarm
	}
	out.Rises, out.Alarms, out.InAlarm = len(rises), len(alarms), float64(in)/float64(max(1, made))
	var leads []time.Duration
	for _, j := range rises {
		if at, _ := slices.BinarySearch(alarms, j-window); at < len(alarms) && alarms[at] < j {
			leads = append(leads, time.Duration(j-alarms[at])*r.Trace.Step)
		}
	}
	for _, i := range alarms {
		if at, _ := slices.BinarySearch(rises, i+1); at < len(rises) && rises[at] <= i+window {
			out.Right++
		}
	}
	if out.Announced = len(leads); out.Announced > 0 {
		slices.Sort(leads)
		out.Lead = leads[len(leads)/2]
	}
	return out
}

// median returns the median of the recorded values; NaN if there are none.
func median(v []float64) float64 {
	var known []float64
	for _, x := range v {
		if x == x {
			known = append(known, x)
		}
	}
	if len(known) == 0 {
		return math.NaN()
	}
	slices.Sort(known)
	return known[len(known)/2]
}
