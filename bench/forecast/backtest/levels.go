package backtest

import (
	"math"
	"time"
)

// A Span has the slots From … To-1.
type Span struct{ From, To int }

// Share returns the span from a share of the trace to its end.
func (t *Trace) Share(from float64) Span {
	return Span{int(math.Round(from * float64(len(t.Rates)))), len(t.Rates)}
}

// After returns the span from an age of the trace to its end.
func (t *Trace) After(age time.Duration) Span { return Span{int(age / t.Step), len(t.Rates)} }

// From returns the span of the slots that begin at an instant or later.
func (t *Trace) From(at time.Time) Span {
	return Span{max(0, int(at.Sub(t.Start)/t.Step)), len(t.Rates)}
}

// A Dataset is a recorded trace: its file in the folder of traces, the width of its slots,
// and which horizons and targets are scored.
type Dataset struct {
	Name, File string
	Step       time.Duration
	Horizons   []time.Duration // compared with reference forecasts
	Levels     []time.Duration // compared with the simple methods
	span       func(*Trace) Span
}

// LevelSpan returns the targets that are compared with the simple methods.
func (d Dataset) LevelSpan(t *Trace) Span { return d.span(t) }

// Datasets returns all recorded traces.
func Datasets() []Dataset {
	minutes := func(m ...int) (list []time.Duration) {
		for _, v := range m {
			list = append(list, time.Duration(v)*time.Minute)
		}
		return list
	}
	half := func(t *Trace) Span { return t.Share(.5) }
	return []Dataset{
		{"nasa_1min", "nasa_http_1995/nasa_1min.csv", time.Minute, minutes(1, 5, 15, 30, 60), minutes(1, 5),
			func(t *Trace) Span { return t.Share(.7) }},
		{"worldcup98_group", "worldcup98_group_stage/wc98_1min_0505_0625.csv", time.Minute, minutes(1, 5, 15, 30, 60),
			minutes(1, 5),
			func(t *Trace) Span { return t.From(time.Date(1998, 6, 1, 0, 0, 0, 0, time.UTC)) }},
		{"elb_5min", "nab_elb_request_count/elb_request_count_8c0756.csv", 5 * time.Minute, minutes(5, 15, 30, 60),
			minutes(5, 15), half},
		{"amzn_5min", "nab_twitter_volume/Twitter_volume_AMZN.csv", 5 * time.Minute, minutes(5, 15, 30, 60),
			minutes(5, 15), half},
		{"nyc_taxi_30min", "nab_nyc_taxi/nyc_taxi.csv", 30 * time.Minute, minutes(30, 60), minutes(30, 60), half},
		{"fb_5min", "nab_twitter_volume/Twitter_volume_FB.csv", 5 * time.Minute, minutes(5, 15, 30, 60), nil, nil},
	}
}
