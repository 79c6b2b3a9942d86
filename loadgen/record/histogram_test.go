package record

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"weir/internal/test/testkit"
)

// filled is a histogram of n random spans around milliseconds.
func filled(seed uint64, n int) Histogram {
	r := rand.New(rand.NewPCG(seed, 5))
	h := newHistogram()
	for range n {
		h.observe(time.Duration(r.ExpFloat64() * float64(ms)))
	}
	return h
}

// A histogram comes back from its text as it was.
func TestHistogramText(t *testing.T) {
	for _, n := range []int{0, 1, 10_000} {
		want := filled(1, n)
		text := testkit.Must(want.MarshalText())(t)
		if !strings.HasPrefix(string(text), "HISTF") {
			t.Errorf("%d spans: the text begins with %.10q, as no other tool would write it", n, text)
		}
		var got Histogram
		if err := got.UnmarshalText(text); err != nil {
			t.Fatalf("%d spans: %v", n, err)
		}
		if !got.counts.Equals(want.counts) || got.Summary() != want.Summary() {
			t.Errorf("%d spans come back as %+v, want %+v", n, got.Summary(), want.Summary())
		}
	}
	var none Histogram
	if text, err := none.MarshalText(); err != nil || len(text) != 0 {
		t.Errorf("no histogram is written %q, %v", text, err)
	}
	if err := none.UnmarshalText(nil); err != nil || !none.empty() || none.Summary() != (Summary{}) ||
		none.Quantiles([]float64{0.5})[0] != 0 {
		t.Errorf("no text is read as %+v, %v", none, err)
	}
}

func TestHistogramRefused(t *testing.T) {
	other := testkit.Must(Histogram{hdrhistogram.New(1, 1000, 2)}.MarshalText())(t)
	good := testkit.Must(filled(1, 100).MarshalText())(t)
	for text, want := range map[string]string{
		string(other):                           "must hold 1000 to 400000000000 ns with 3 digits, holds 1 to 1000 with 2",
		"HISTFAAA":                              "histogram: ",
		"not base64!":                           "histogram: ",
		string(good[:len(good)/2]):              "histogram: ",
		strings.Repeat("A", histogramTextMax+1): "is longer than 4194304 bytes",
	} {
		h := filled(2, 1)
		if err := h.UnmarshalText([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v, want %q", text, err, want)
		}
	}
}

// Whatever the text, it is a histogram that comes back the same or an error.
func FuzzHistogramText(f *testing.F) {
	for _, n := range []int{0, 3, 500} {
		text := testkit.Must(filled(3, n).MarshalText())(f)
		f.Add(string(text))
	}
	f.Fuzz(func(t *testing.T, text string) {
		var h, again Histogram
		if h.UnmarshalText([]byte(text)) != nil || h.counts == nil {
			return
		}
		second := testkit.Must(h.MarshalText())(t)
		if err := again.UnmarshalText(second); err != nil || again.Summary() != h.Summary() {
			t.Errorf("%q comes back otherwise, error %v", text, err)
		}
	})
}

// A quantile is what at least its share did not exceed, also when its rank is between two.
func TestQuantileRank(t *testing.T) {
	h := newHistogram()
	for i := range 33 {
		if i < 31 {
			h.observe(10 * ms)
		} else {
			h.observe(200 * ms)
		}
	}
	if got := h.Summary(); got.P95 < 0.19 || got.P90 > 0.011 {
		t.Errorf("with 2 slow ones of 33, p90 is %v s and p95 %v s, want 0.01 and 0.2", got.P90, got.P95)
	}
	shares := []float64{0, 0.07, 0.5, 0.9, 0.95, 0.99, 0.999, 1}
	h = newHistogram()
	for n := 1; n <= 2000; n++ {
		h.observe(time.Duration(n) * ms)
		for i, got := range h.Quantiles(shares) {
			thousandths := int(math.Round(1000 * shares[i]))
			rank := max(1, (thousandths*n+999)/1000)
			if want := float64(rank) / 1000; math.Abs(got-want) > want/1000 {
				t.Fatalf("the quantile %v of 1 to %d ms is %v s, want %v", shares[i], n, got, want)
			}
		}
	}
}

// Whatever the edges, each span between the outer ones is counted once.
func TestHistogramBetween(t *testing.T) {
	h := filled(7, 5000)
	for _, n := range []int{1, 2, 17, 60} {
		edges := make([]float64, n+1)
		for i := range edges {
			edges[i] = 1e-7 * math.Pow(1e10, float64(i)/float64(n))
		}
		counts := h.Between(edges)
		var sum uint64
		for _, c := range counts {
			sum += c
		}
		if len(counts) != n || sum != 5000 {
			t.Errorf("%d intervals hold %d of 5000 spans", len(counts), sum)
		}
	}
	if got := h.Between([]float64{1, 2}); got[0] != 0 {
		t.Errorf("%d spans between one and two seconds", got[0])
	}
	if got := h.Between(nil); len(got) != 0 {
		t.Errorf("no edges hold %v", got)
	}
	if got := (Histogram{}).Between([]float64{0, 1}); got[0] != 0 {
		t.Errorf("no histogram holds %v", got)
	}
	if got, want := h.Quantiles([]float64{0.5, 0.999}), h.Summary(); got[0] != want.P50 || got[1] != want.P999 {
		t.Errorf("the quantiles are %v, want %v and %v", got, want.P50, want.P999)
	}
}

// Lag is recorded separately for each cause.
func TestLagByCause(t *testing.T) {
	tally := NewTally()
	tally.Start(5*ms, 5*ms, -1, false) // the generator
	tally.Start(5*ms, ms, -1, false)   // a busy connection
	tally.Start(5*ms, 2*ms, -1, true)  // a new connection
	tally.Start(ms, ms, -1, true)      // the generator, on a new connection
	for name, c := range map[string]struct {
		got  Summary
		n    uint64
		most float64
	}{
		"lag": {tally.Lag.Summary(), 4, 0.005}, "pacer lag": {tally.PacerLag.Summary(), 4, 0.005},
		"busy lag": {tally.BusyLag.Summary(), 1, 0.004}, "dial lag": {tally.DialLag.Summary(), 1, 0.003},
	} {
		if c.got.Count != c.n || math.Abs(c.got.Max/c.most-1) > 0.01 {
			t.Errorf("%s: %d, at most %v; want %d, %v", name, c.got.Count, c.got.Max, c.n, c.most)
		}
	}
	if tally.Sent() != 4 {
		t.Errorf("%d sent, want 4", tally.Sent())
	}
}
