package series

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

var epoch = time.Date(2026, 1, 19, 16, 30, 0, 0, time.UTC)

// An interval that crosses a boundary is divided by time, and unknown time is not a zero.
func TestMean(t *testing.T) {
	h := New()
	for _, a := range []struct {
		at, interval time.Duration
		rate         float64
	}{
		{30 * time.Second, 30 * time.Second, 10},
		{90 * time.Second, 60 * time.Second, 20}, // half in the first minute
		{5 * time.Minute, 60 * time.Second, 40},
	} {
		if !h.Add(epoch.Add(a.at), a.interval, a.rate) {
			t.Fatal("a rate is refused")
		}
	}
	for _, c := range []struct {
		name           string
		r              Resolution
		from, to       time.Duration
		rate, coverage float64
	}{
		{"the first minute is half 10 and half 20", Minute, 0, time.Minute, 15, 1},
		{"of the second one half is known", Minute, time.Minute, 2 * time.Minute, 20, .5},
		{"a gap", Minute, 2 * time.Minute, 4 * time.Minute, 0, 0},
		{"a known minute", Minute, 4 * time.Minute, 5 * time.Minute, 40, 1},
		{"five minutes, half of which are known", FiveMinutes, 0, 5 * time.Minute, (30*10 + 60*20 + 60*40) / 150.0, .5},
		{"before everything", Hour, -2 * time.Hour, -time.Hour, 0, 0},
		{"after everything", Minute, time.Hour, 2 * time.Hour, 0, 0},
		{"an empty span", Minute, time.Minute, time.Minute, 0, 0},
	} {
		rate, coverage := h.Mean(c.r, seconds(epoch.Add(c.from)), seconds(epoch.Add(c.to)))
		if math.Abs(rate-c.rate) > 1e-9 || math.Abs(coverage-c.coverage) > 1e-6 {
			t.Errorf("%s: %g of %g, want %g of %g", c.name, rate, coverage, c.rate, c.coverage)
		}
	}
}

// Refused rates change nothing.
func TestRefusals(t *testing.T) {
	h := New()
	if !h.Add(epoch, time.Minute, 5) {
		t.Fatal("a rate is refused")
	}
	before := h.Encode()
	for _, c := range []struct {
		name     string
		at       time.Time
		interval time.Duration
		rate     float64
	}{
		{"the same instant again", epoch, time.Minute, 5},
		{"older", epoch.Add(-time.Second), time.Minute, 5},
		{"NaN", epoch.Add(time.Minute), time.Minute, math.NaN()},
		{"infinite", epoch.Add(time.Minute), time.Minute, math.Inf(1)},
		{"negative", epoch.Add(time.Minute), time.Minute, -1},
		{"no interval", epoch.Add(time.Minute), 0, 1},
		{"too long an interval", epoch.Add(time.Minute), 25 * time.Hour, 1},
		{"before 1970", time.Unix(-1, 0), time.Minute, 1},
		{"long after us", time.Unix(1<<40, 0), time.Minute, 1},
	} {
		if h.Add(c.at, c.interval, c.rate) {
			t.Errorf("%s is not refused", c.name)
		}
	}
	if after := h.Encode(); string(after) != string(before) {
		t.Error("what was refused has changed the history")
	}
}

// The rings agree with a list of all rates, also after gaps and with any intervals.
func TestAgainstList(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	h := New()
	var list []Row
	at := epoch
	for range 5000 {
		interval := time.Duration(1+r.IntN(90)) * time.Second
		at = at.Add(interval)
		if r.IntN(50) == 0 {
			at = at.Add(time.Duration(r.IntN(3600)) * time.Second)
		}
		row := Row{At: at, Interval: interval, Rate: 100 * r.Float64()}
		if !h.Add(row.At, row.Interval, row.Rate) {
			t.Fatal("a rate is refused")
		}
		list = append(list, row)
	}
	for _, res := range []Resolution{Minute, FiveMinutes, Hour} {
		for range 200 {
			end := at.Truncate(res.Width()).Add(-time.Duration(r.IntN(40)) * res.Width())
			begin := end.Add(-res.Width())
			sum, known := 0.0, 0.0
			for _, row := range list {
				from, to := row.At.Add(-row.Interval), row.At
				if from.Before(begin) {
					from = begin
				}
				if to.After(end) {
					to = end
				}
				if s := to.Sub(from).Seconds(); s > 0 {
					sum += s * row.Rate
					known += s
				}
			}
			rate, coverage := h.Mean(res, seconds(begin), seconds(end))
			if math.Abs(coverage*res.Width().Seconds()-known) > 1e-2 || math.Abs(rate*known-sum) > 1e-3*(1+sum) {
				t.Fatalf("%s to %s: %g over %gs, want %g over %gs", res.Width(), end, rate, coverage*res.Width().Seconds(),
					sum/known, known)
			}
		}
	}
}

// Each ring keeps its span and drops the rest; memory and state stay bounded over a year.
func TestBounds(t *testing.T) {
	h := New()
	at := epoch
	for range 366 * 24 * 4 {
		at = at.Add(15 * time.Minute)
		if !h.Add(at, 15*time.Minute, 7) {
			t.Fatal("a rate is refused")
		}
	}
	for r := Minute; r <= Hour; r++ {
		end := at.Truncate(r.Width())
		kept := h.Rows(r, epoch, end)
		want := int(min(r.Span(), 366*24*time.Hour) / r.Width())
		if len(kept) < want-1 || len(kept) > want+1 {
			t.Errorf("%s: %d buckets are kept, want about %d", r.Width(), len(kept), want)
		}
		for _, row := range kept {
			if row.Rate != 7 {
				t.Fatalf("%s: %v", r.Width(), row)
			}
		}
	}
	if b := h.Encode(); len(b) > 1<<20 {
		t.Errorf("the state has %d bytes", len(b))
	}
	if n := len(h.Raw(epoch, at)); n > 26 {
		t.Errorf("%d rates as they came are kept over six hours of quarters", n)
	}
}

// Rates at full resolution are kept for six hours, and at most one for each second of that.
func TestRaw(t *testing.T) {
	h := New()
	at := epoch
	for _, pace := range []time.Duration{time.Minute, time.Second, 100 * time.Millisecond, time.Minute, 10 * time.Second} {
		for range 25000 {
			at = at.Add(pace)
			if !h.Add(at, pace, 1) {
				t.Fatal("a rate is refused")
			}
		}
		kept := h.Raw(time.Unix(0, 0), at)
		if len(kept) > rawMax {
			t.Fatalf("%d are kept at %s", len(kept), pace)
		}
		if oldest := kept[0].At; oldest.Before(at.Add(-rawSpan - pace)) {
			t.Errorf("at %s one is %s old", pace, at.Sub(oldest))
		}
		if want := int(min(rawSpan/pace, rawMax)); len(kept) < want-1 {
			t.Errorf("at %s only %d are kept, want %d", pace, len(kept), want)
		}
		for i := range kept[1:] {
			if !kept[i].At.Before(kept[i+1].At) {
				t.Fatalf("at %s number %d is out of order", pace, i)
			}
		}
	}
}
