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
	w.reset(0)
	var times []float64
	for range n {
		ns := draw()
		w.n++
		w.inFlight += 10
		w.add(ns, ns)
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
		g.baseline.known = knownMax
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
			t.Errorf("%.1f times slower, %.0f ms of waiting: %.1f of 10 in flight are at work, want %.1f", c.slower,
				c.wait/1e6, r.atWork, want)
		}
	}
}

// A window has changed when the answers since it was read are of another time, and hardly ever
// by chance, however answer times vary.
func TestChanged(t *testing.T) {
	source := rand.NewPCG(1, 4)
	rng := rand.New(source)
	exponential := func() float64 { return 1e7 * rng.ExpFloat64() }
	around := func(ns, jitter float64) func() float64 {
		return func() float64 { return ns * (1 + jitter*(2*rng.Float64()-1)) }
	}
	start := bucketStart(120)
	draws := map[string]func() float64{
		"exponential":              exponential,
		"queued":                   func() float64 { return 3e7 + exponential() },
		"constant":                 func() float64 { return 1e7 },
		"nearly constant":          around(1e7, .05),
		"at a bucket's start":      around(start, .05),
		"mostly below that":        around(.98*start, .05),
		"mostly above that":        around(1.02*start, .05),
		"two kinds, equally often": func() float64 { return []float64{1e7, 1.5e7}[rng.IntN(2)] },
	}
	for name, draw := range draws {
		source.Seed(1, 4) // the same in any order
		for _, c := range []struct {
			adds, times float64 // to an answer time of about 10 ms
			least, most float64 // share of the windows that have changed
		}{
			{0, 1, 0, .01},
			{1e8, 1, .9, 1}, // a queue has grown
			{0, 10, .9, 1},  // slower
			{0, .1, .9, 1},  // faster
		} {
			changed, windows := 0., 1000.
			if c.least == 0 {
				windows = 10_000 // by chance up to .008 of them change
			}
			for range int(windows) {
				w, _ := fill(120, draw)
				if w.changed() {
					t.Fatal("a window that was not read has changed")
				}
				w.mark()
				for range 30 {
					ns := c.adds + c.times*draw()
					w.add(ns, ns)
				}
				if w.changed() {
					changed++
				}
			}
			if share := changed / windows; share < c.least || share > c.most {
				t.Errorf("%s, %.0f ms longer and %.2f times as long: %.3f of the windows have changed, want %.2f to %.2f", name,
					c.adds/1e6, c.times, share, c.least, c.most)
			}
		}
	}
}

// A window that begins anew still ignores answers to requests that were sent before the limit fell.
func TestRenewStale(t *testing.T) {
	const fell = time.Minute
	w := window{since: fell, few: 5, until: fell + time.Second}
	w.renew(fell + 100*time.Millisecond)
	for _, c := range []struct {
		after    time.Duration
		inFlight int
		want     bool
	}{{200 * time.Millisecond, 6, true}, {200 * time.Millisecond, 5, false}, {time.Second, 6, false}} {
		if got := w.stale(fell+c.after, fell, &Response{InFlight: c.inFlight}); got != c.want {
			t.Errorf("%v after the fall, %d in flight: stale: %t, want %t", c.after, c.inFlight, got, c.want)
		}
	}
}
