package advisor

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"time"

	"weir/advisor/series"
	"weir/bench/forecast/backtest"
	"weir/bench/forecast/closedloop"
	"weir/bench/lab/result"
	"weir/bench/lab/rig"
)

// A trace is recorded or generated traffic.
type trace struct {
	backtest.Trace
	dispersion float64
	from       time.Time // of the span that is played
	span       time.Duration
	past       *trace // coarser history, if the trace itself has none
}

// A source describes a recorded trace.
type source struct {
	name, file string
	read       func(name string, step time.Duration, text []byte) (*backtest.Trace, error)
	step       time.Duration
	dispersion float64
	from       string // of the span that is played; empty: all of it
	span       time.Duration
	start      string // for files without dates
	past       string // file of one-minute counts
}

// sources are the recorded traces, each with a span that has an event: matches, a launch,
// spikes, a New Year's Eve.
var sources = []source{
	{name: "worldcup match", file: "worldcup98_group_stage/wc98_1min_0505_0625.csv", read: backtest.ParseCounts,
		step: time.Minute, dispersion: 2, from: "1998-06-25 13:00:00", span: 3 * time.Hour},
	{name: "worldcup evening", file: "worldcup98_group_stage/wc98_1min_0505_0625.csv", read: backtest.ParseCounts,
		step: time.Minute, dispersion: 2, from: "1998-06-22 18:30:00", span: 3 * time.Hour},
	{name: "nasa launch", file: "nasa_http_1995/nasa_1s_1995-07-13.csv", read: backtest.ParseCounts, step: time.Second,
		from: "1995-07-13 07:00:00", span: 3 * time.Hour, start: "1995-07-13 00:00:00", past: "nasa_http_1995/nasa_1min.csv"},
	{name: "nasa morning", file: "nasa_http_1995/nasa_1min.csv", read: backtest.ParseCounts, step: time.Minute,
		dispersion: 2, from: "1995-08-31 06:00:00", span: 3 * time.Hour},
	{name: "elb", file: "nab_elb_request_count/elb_request_count_8c0756.csv", read: backtest.ParseCounts,
		step: 5 * time.Minute, dispersion: 2, from: "2014-04-22 17:04:00", span: 3 * time.Hour},
	{name: "amazon mentions", file: "nab_twitter_volume/Twitter_volume_AMZN.csv", read: backtest.ParseCounts,
		step: 5 * time.Minute, dispersion: 2, from: "2015-04-21 14:02:53", span: 3 * time.Hour},
	{name: "facebook mentions", file: "nab_twitter_volume/Twitter_volume_FB.csv", read: backtest.ParseCounts,
		step: 5 * time.Minute, dispersion: 2, from: "2015-04-22 14:32:53", span: 3 * time.Hour},
	{name: "taxi", file: "nab_nyc_taxi/nyc_taxi.csv", read: backtest.ParseCounts, step: 30 * time.Minute,
		dispersion: 2, from: "2014-12-31 20:00:00", span: 3 * time.Hour},
	{name: "diurnal", file: "autothrottle_traces/diurnal.txt", read: backtest.ParseRates, step: time.Second,
		dispersion: 1, start: "2024-01-01 00:00:00"},
	{name: "noisy", file: "autothrottle_traces/noisy.txt", read: backtest.ParseRates, step: time.Second, dispersion: 1,
		start: "2024-01-01 00:00:00"},
	{name: "azure chat", file: "azure_llm_conv_2023/AzureLLMInferenceTrace_conv.csv", read: readRequests,
		step: 100 * time.Millisecond},
}

// traces reads the recorded traces in dir. If there is no such folder it returns generated
// ones, and madeUp is true.
func traces(dir string) (all []*trace, madeUp bool) {
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return synthetic(), true
	}
	return result.Map(sources, func(s source) *trace { return s.trace(dir) }), false
}

// trace reads a source.
func (s source) trace(dir string) *trace {
	instant := func(text string) time.Time { return rig.Must(time.Parse(time.DateTime, text)) }
	text := rig.Must(os.ReadFile(filepath.Join(dir, s.file)))
	read := rig.Must(s.read(s.name, s.step, text))
	if s.start != "" {
		read.Start = instant(s.start)
	}
	t := &trace{Trace: *read, dispersion: s.dispersion, from: read.Start, span: time.Duration(len(read.Rates)) * s.step}
	if s.from != "" {
		t.from, t.span = instant(s.from), s.span
	}
	if s.past != "" {
		t.past = source{name: s.name, file: s.past, read: backtest.ParseCounts, step: time.Minute}.trace(dir)
	}
	return t
}

// readRequests reads a header and a request per line, and counts the requests in slots.
func readRequests(name string, step time.Duration, text []byte) (*backtest.Trace, error) {
	t := &backtest.Trace{Name: name, Step: step}
	n := 0
	for line := range strings.Lines(string(text)) {
		if n++; n == 1 {
			continue
		}
		word, _, _ := strings.Cut(line, ",")
		at, err := time.Parse("2006-01-02 15:04:05.999999999", word)
		if err != nil {
			return nil, fmt.Errorf("read trace %s: line %d: %w", name, n, err)
		}
		if t.Rates == nil {
			t.Start = at.Truncate(time.Second)
		}
		slot := int(at.Sub(t.Start) / t.Step)
		for len(t.Rates) <= slot {
			t.Rates = append(t.Rates, 0)
		}
		t.Rates[slot] += 1 / t.Step.Seconds()
	}
	return t, nil
}

// demand returns the middle of the span that is played, with at most the given length and
// interpolated gaps.
func (t *trace) demand(most time.Duration) closedloop.Demand {
	span := min(t.span, most)
	from := t.from.Add(((t.span - span) / 2).Truncate(t.Step))
	first := int(from.Sub(t.Start) / t.Step)
	n := max(1, int(span/t.Step))
	rates := bridged(t.Rates[max(0, first):min(first+n, len(t.Rates))])
	return closedloop.Demand{Start: t.Start.Add(time.Duration(first) * t.Step), Step: t.Step, Rates: rates,
		Dispersion: t.dispersion}
}

// history returns the rates of a span before an instant, in slots of at least a minute.
func (t *trace) history(before time.Time, span time.Duration) (past []series.Row) {
	if t.past != nil {
		return t.past.history(before, span)
	}
	if t.Step < time.Minute {
		return nil
	}
	for i, r := range t.Rates {
		end := t.Start.Add(time.Duration(i+1) * t.Step)
		if end.After(before) {
			break
		}
		if !math.IsNaN(r) && before.Sub(end) < span {
			past = append(past, series.Row{At: end, Interval: t.Step, Rate: r, Coverage: 1})
		}
	}
	return past
}

// bridged returns the rates with gaps interpolated.
func bridged(rates []float64) []float64 {
	out := make([]float64, len(rates))
	last := -1
	for i, r := range rates {
		if math.IsNaN(r) {
			continue
		}
		for j := last + 1; j <= i; j++ {
			out[j] = r
			if last >= 0 {
				share := float64(j-last) / float64(i-last)
				out[j] = (1-share)*rates[last] + share*r
			}
		}
		last = i
	}
	for j := last + 1; j < len(out) && last >= 0; j++ {
		out[j] = rates[last]
	}
	return out
}
