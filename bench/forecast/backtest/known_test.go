package backtest

import (
	"math"
	"os"
	"testing"
	"time"

	"weir/advisor/forecast"
)

// read returns a file of the shared folder; false if there is none.
func read(t *testing.T, name string) ([]byte, bool) {
	t.Helper()
	text, err := os.ReadFile("../../../../shared/" + name)
	if os.IsNotExist(err) {
		return nil, false
	}
	if err != nil {
		t.Fatal(err)
	}
	return text, true
}

// The errors of the simple methods are those that other programs have computed.
func TestLevelsAreThePublishedOnes(t *testing.T) {
	for _, c := range []struct {
		name    string
		horizon time.Duration
		method  string
		wape    float64
	}{
		{"elb_5min", 5 * time.Minute, "last", .860}, {"elb_5min", 15 * time.Minute, "profile_ratio", 1.087},
		{"elb_5min", 5 * time.Minute, "ses_0.1", .664}, {"elb_5min", 5 * time.Minute, "naive_week", .955},
		{"amzn_5min", 5 * time.Minute, "last", .235}, {"amzn_5min", 15 * time.Minute, "ses_0.2", .244},
		{"amzn_5min", 5 * time.Minute, "naive_day", .355}, {"amzn_5min", 5 * time.Minute, "profile_ratio", .276},
		{"nyc_taxi_30min", 30 * time.Minute, "last", .084}, {"nyc_taxi_30min", 30 * time.Minute, "profile_ratio", .057},
		{"nyc_taxi_30min", time.Hour, "naive_week", .126}, {"nyc_taxi_30min", time.Hour, "profile_ratio", .094},
	} {
		for _, d := range Datasets() {
			text, ok := read(t, "traces/"+d.File)
			if d.Name != c.name || !ok {
				continue
			}
			tr, err := ParseCounts(d.Name, d.Step, text)
			if err != nil {
				t.Fatal(err)
			}
			run := &Run{Trace: tr, Horizons: []time.Duration{c.horizon},
				Forecasts: [][]forecast.Point{make([]forecast.Point, len(tr.Rates))}}
			row, err := run.Levels(d.LevelSpan(tr), c.horizon)
			if err != nil {
				t.Fatal(err)
			}
			if got, _ := row.Other(c.method); math.Abs(got.WAPE-c.wape) > .0035*max(1, c.wape) {
				t.Errorf("%s, %s ahead: %s has %.4f, published is %.3f", c.name, c.horizon, c.method, got.WAPE, c.wape)
			}
		}
	}
}

// A week of a rate with days, noise and a burst: the advisor is better than all simple
// methods, and its band covers what it should. (Long evaluations are the bench's.)
func TestAdvisorOnAWeek(t *testing.T) {
	text, err := os.ReadFile("testdata/week.csv")
	if err != nil {
		t.Fatal(err)
	}
	tr, err := ParseCounts("week", 15*time.Minute, text)
	if err != nil {
		t.Fatal(err)
	}
	r, err := Replay(tr, Advisor(forecast.Settings{}), 15*time.Minute, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	for h, d := range r.Horizons {
		c, err := r.Levels(tr.Share(.5), d)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range c.Others {
			if o.Name != "naive_week" && c.Own.WAPE > o.WAPE { // there was only one week to know
				t.Errorf("%s ahead: error %.4f, %s has %.4f", d, c.Own.WAPE, o.Name, o.WAPE)
			}
		}
		if s := r.Score(h, tr.After(6*time.Hour)); s.Within < .84 || s.Within > .98 {
			t.Errorf("%s ahead: the band covers %.3f", d, s.Within)
		}
	}
}
