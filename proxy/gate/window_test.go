package gate

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// fill returns a window of n answers whose times are drawn, and the times, sorted.
func fill(n int, draw func() float64) (*window, []float64) {
	w := &window{}
	w.reset(time.Unix(1, 0))
	var times []float64
	for range n {
		ns := draw()
		w.n++
		w.inFlight += 10
		w.add(ns)
		times = append(times, ns)
	}
	slices.Sort(times)
	return w, times
}

// The quantiles of a window lie within its buckets, an eighth of a doubling wide, of
// those of the times themselves.
func TestShape(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for name, draw := range map[string]func() float64{
		"exponential": func() float64 { return 1e3 + 1e7*rng.ExpFloat64() },
		"log-normal":  func() float64 { return 1e7 * math.Exp(1.5*rng.NormFloat64()) },
		"constant":    func() float64 { return 1e7 },
		"two kinds":   func() float64 { return []float64{1e5, 1e9}[rng.IntN(2)] },
	} {
		for _, n := range []int{1, 10, 20, 200, 5000} {
			w, times := fill(n, draw)
			s := w.shape()
			for q, got := range map[float64]float64{.10: s.low, .50: s.mid, .75: s.high} {
				if want := times[int(q*float64(n))]; got < want/1.13 || got > want*1.13 {
					t.Errorf("%s, %d answers: the quantile %.2f is %.3g ns, want %.3g", name, n, q, got, want)
				}
			}
			sum := 0.0
			for _, ns := range times {
				sum += ns
			}
			if want := sum / float64(n); math.Abs(s.mean/want-1) > 1e-9 {
				t.Errorf("%s, %d answers: the mean is %g, want %g", name, n, s.mean, want)
			}
		}
	}
}

// Times out of the range of the buckets count as the shortest or the longest.
func TestShapeRange(t *testing.T) {
	for _, ns := range []float64{1, 1e18} {
		w, _ := fill(20, func() float64 { return ns })
		if s := w.shape(); s.low > s.mid || s.mid > s.high || math.IsNaN(s.low) || math.IsInf(s.high, 0) {
			t.Errorf("answers of %g ns: %+v", ns, s)
		}
	}
}

// From answers that are f times as long as when calm, and wait for w besides, both are
// recovered.
func TestRead(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	service := func() float64 { return 1e7 * rng.ExpFloat64() }
	for _, c := range []struct{ slower, wait float64 }{{1, 0}, {1, 5e6}, {1, 2e7}, {3.5, 0}, {2, 2e7}, {.5, 1e7}} {
		g := New(Config{})
		calm, _ := fill(20_000, service)
		g.window = *calm
		g.read(time.Second)
		g.calm.known = knownMax
		var r reading
		for range 40 { // slowness is smoothed
			now, _ := fill(2000, func() float64 { return c.wait + c.slower*service() })
			g.window = *now
			r = g.read(time.Second)
		}
		share := c.wait / (c.wait + c.slower*1e7)
		if math.Abs(g.slower/c.slower-1) > .12 || math.Abs(r.waiting-share) > .05 {
			t.Errorf("%.1f times slower, %.0f ms of waiting: read as %.2f times slower, %.2f of the time waiting, want %.2f",
				c.slower, c.wait/1e6, g.slower, r.waiting, share)
		}
		if want := 10 * (1 - share); math.Abs(r.atWork-want) > .5 {
			t.Errorf("%.1f times slower, %.0f ms of waiting: %.1f of 10 in flight are at work, want %.1f", c.slower, c.wait/1e6, r.atWork, want)
		}
	}
}

// A few answers that are close together by chance do not change what calm is.
func TestReadFew(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 3))
	calm, _ := fill(20_000, func() float64 { return 1e7 * rng.ExpFloat64() })
	for n, changed := range map[int]bool{windowMin: false, longMin: true} {
		g := New(Config{})
		g.window = *calm
		g.read(time.Second)
		g.calm.known = knownMax
		before := g.calm.shape
		now, _ := fill(n, func() float64 { return 1e7 * (1 + .1*rng.Float64()) })
		g.window = *now
		if g.read(spanMin); (g.calm.shape != before) != changed {
			t.Errorf("after %d answers that hardly vary: calm changed: %t, want %t", n, !changed, changed)
		}
	}
}
