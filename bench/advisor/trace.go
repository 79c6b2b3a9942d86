package advisor

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"weir/advisor/series"
	"weir/bench/backtest"
	"weir/bench/closedloop"
)

// A trace is recorded traffic, or traffic made up where none is at hand.
type trace struct {
	name       string
	start      time.Time // of the first slot
	step       time.Duration
	rates      []float64 // requests per second, NaN where nothing was recorded
	dispersion float64
	from       time.Time // of the span that is played
	span       time.Duration
	past       *trace // history in a coarser form, when the trace itself has none
}

// A source says how a trace is read.
type source struct {
	name, file string
	read       func(path string, s source) (*trace, error)
	step       time.Duration
	dispersion float64
	from       string // of the span that is played; empty: all of it
	span       time.Duration
	start      string // for files without dates
	past       string // file of one-minute counts
}

// sources are the recorded traces, each with a span in which something happens:
// matches, a launch, spikes, a New Year's Eve.
var sources = []source{
	{name: "worldcup match", file: "worldcup98_group_stage/wc98_1min_0505_0625.csv", read: readCounts, step: time.Minute, dispersion: 2, from: "1998-06-25 13:00:00", span: 3 * time.Hour},
	{name: "worldcup evening", file: "worldcup98_group_stage/wc98_1min_0505_0625.csv", read: readCounts, step: time.Minute, dispersion: 2, from: "1998-06-22 18:30:00", span: 3 * time.Hour},
	{name: "nasa launch", file: "nasa_http_1995/nasa_1s_1995-07-13.csv", read: readSeconds, step: time.Second, from: "1995-07-13 07:00:00", span: 3 * time.Hour, start: "1995-07-13 00:00:00", past: "nasa_http_1995/nasa_1min.csv"},
	{name: "nasa morning", file: "nasa_http_1995/nasa_1min.csv", read: readCounts, step: time.Minute, dispersion: 2, from: "1995-08-31 06:00:00", span: 3 * time.Hour},
	{name: "elb", file: "nab_elb_request_count/elb_request_count_8c0756.csv", read: readCounts, step: 5 * time.Minute, dispersion: 2, from: "2014-04-22 17:04:00", span: 3 * time.Hour},
	{name: "amazon mentions", file: "nab_twitter_volume/Twitter_volume_AMZN.csv", read: readCounts, step: 5 * time.Minute, dispersion: 2, from: "2015-04-21 14:02:53", span: 3 * time.Hour},
	{name: "facebook mentions", file: "nab_twitter_volume/Twitter_volume_FB.csv", read: readCounts, step: 5 * time.Minute, dispersion: 2, from: "2015-04-22 14:32:53", span: 3 * time.Hour},
	{name: "taxi", file: "nab_nyc_taxi/nyc_taxi.csv", read: readCounts, step: 30 * time.Minute, dispersion: 2, from: "2014-12-31 20:00:00", span: 3 * time.Hour},
	{name: "diurnal", file: "autothrottle_traces/diurnal.txt", read: readLines, step: time.Second, dispersion: 1, start: "2024-01-01 00:00:00"},
	{name: "noisy", file: "autothrottle_traces/noisy.txt", read: readLines, step: time.Second, dispersion: 1, start: "2024-01-01 00:00:00"},
	{name: "azure chat", file: "azure_llm_conv_2023/AzureLLMInferenceTrace_conv.csv", read: readRequests, step: 100 * time.Millisecond},
}

const dateForm = "2006-01-02 15:04:05"

// traces reads the recorded traces below dir. Where there are none it makes some
// up, and says so.
func traces(dir string) (all []*trace, madeUp bool, err error) {
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return synthetic(), true, nil
	}
	read := make(map[string]*trace)
	for _, s := range sources {
		t := read[s.file]
		if t == nil {
			if t, err = s.read(filepath.Join(dir, s.file), s); err != nil {
				return nil, false, err
			}
			read[s.file] = t
		}
		own := *t
		own.name, own.dispersion, own.from, own.span = s.name, s.dispersion, t.start, time.Duration(len(t.rates))*t.step
		if s.from != "" {
			if own.from, err = time.Parse(dateForm, s.from); err != nil {
				return nil, false, err
			}
			own.span = s.span
		}
		if s.past != "" {
			if own.past, err = readCounts(filepath.Join(dir, s.past), source{step: time.Minute}); err != nil {
				return nil, false, err
			}
		}
		all = append(all, &own)
	}
	return all, false, nil
}

// lines calls f with the fields of each line of a file but the first, the
// heading.
func lines(path string, f func(fields []string) error) error {
	file, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("read trace: %w", err)
	}
	defer file.Close()
	in := bufio.NewScanner(file)
	for n := 1; in.Scan(); n++ {
		if n == 1 || strings.TrimSpace(in.Text()) == "" {
			continue
		}
		if err := f(strings.Split(strings.TrimSpace(in.Text()), ",")); err != nil {
			return fmt.Errorf("read trace %s: line %d: %w", path, n, err)
		}
	}
	return in.Err()
}

// readCounts reads date,count rows. Slots that are not there are gaps.
func readCounts(path string, s source) (*trace, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read trace: %w", err)
	}
	t, err := backtest.ParseCounts(path, s.step, text)
	if err != nil {
		return nil, err
	}
	return &trace{start: t.Start, step: s.step, rates: t.Rates}, nil
}

// readSeconds reads second,count rows of a day.
func readSeconds(path string, s source) (*trace, error) {
	start, err := time.Parse(dateForm, s.start)
	if err != nil {
		return nil, err
	}
	t := &trace{start: start, step: s.step}
	err = lines(path, func(f []string) error {
		n, err := strconv.ParseFloat(f[len(f)-1], 64)
		t.rates = append(t.rates, n)
		return err
	})
	return t, err
}

// readLines reads a rate per line.
func readLines(path string, s source) (*trace, error) {
	start, err := time.Parse(dateForm, s.start)
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read trace: %w", err)
	}
	t, err := backtest.ParseRates(path, start, s.step, text)
	if err != nil {
		return nil, err
	}
	return &trace{start: start, step: s.step, rates: t.Rates}, nil
}

// readRequests reads a request per line and counts them in slots.
func readRequests(path string, s source) (*trace, error) {
	t := &trace{step: s.step}
	err := lines(path, func(f []string) error {
		at, err := time.Parse("2006-01-02 15:04:05.999999999", f[0])
		if err != nil {
			return err
		}
		if t.rates == nil {
			t.start = at.Truncate(time.Second)
		}
		slot := int(at.Sub(t.start) / t.step)
		for len(t.rates) <= slot {
			t.rates = append(t.rates, 0)
		}
		t.rates[slot] += 1 / t.step.Seconds()
		return nil
	})
	return t, err
}

// demand is the span that is played, at most so long, as it was recorded. Gaps
// are bridged.
func (t *trace) demand(most time.Duration) closedloop.Demand {
	span := min(t.span, most)
	if most < t.span { // the middle, where things happen
		span = most
	}
	from := t.from.Add(((t.span - span) / 2).Truncate(t.step))
	first := int(from.Sub(t.start) / t.step)
	n := max(1, int(span/t.step))
	rates := bridged(t.rates[max(0, first):min(first+n, len(t.rates))])
	return closedloop.Demand{Start: t.start.Add(time.Duration(first) * t.step), Step: t.step, Rates: rates, Dispersion: t.dispersion}
}

// history is what was recorded in a span before an instant, by slots of at least a
// minute.
func (t *trace) history(before time.Time, span time.Duration) (past []series.Row) {
	if t.past != nil {
		return t.past.history(before, span)
	}
	if t.step < time.Minute {
		return nil
	}
	for i, r := range t.rates {
		end := t.start.Add(time.Duration(i+1) * t.step)
		if end.After(before) {
			break
		}
		if !math.IsNaN(r) && before.Sub(end) < span {
			past = append(past, series.Row{At: end, Interval: t.step, Rate: r, Coverage: 1})
		}
	}
	return past
}

// bridged returns the rates with gaps filled by what lies between their ends.
func bridged(rates []float64) []float64 {
	out := make([]float64, len(rates))
	last := -1
	for i, r := range rates {
		if math.IsNaN(r) {
			continue
		}
		for j := last + 1; j <= i; j++ {
			if last < 0 {
				out[j] = r
				continue
			}
			share := float64(j-last) / float64(i-last)
			out[j] = (1-share)*rates[last] + share*r
		}
		last = i
	}
	for j := last + 1; j < len(out); j++ {
		if last >= 0 {
			out[j] = rates[last]
		}
	}
	return out
}
