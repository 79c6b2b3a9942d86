package metric

import (
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestWriteGolden(t *testing.T) {
	s := New()
	h := NewHistogram([]float64{0.005, 1})
	h.Observe(5 * time.Millisecond)
	h.Observe(2 * time.Second)
	s.Counter(`x_total{decision="forwarded"}`, "Requests\nby decision.", func() uint64 { return 3 })
	s.Gauge("limit", `The \ limit.`, func() float64 { return 16.7 })
	s.Counter(`x_total{decision="rejected"}`, "", func() uint64 { return 1 << 63 })
	s.Histogram(`d_seconds{rule="a"}`, "Durations.", h)
	s.Counters("rule_total", "By rule.", func(add func(string, uint64)) { add(Labels("rule", "a\"\\\n"), 7) })
	s.Gauges("none", "Has no sample.", func(func(string, float64)) {})
	s.Gauge("odd", "Odd values.", func() float64 { return math.Inf(1) })
	s.Gauges("is", "Whether it is so.", func(add func(string, float64)) { add(Labels("it", "no"), Bool(false)) })
	s.Gauge("so", "Whether it is so.", func() float64 { return Bool(true) })
	second := s.With("store", "b")
	second.Gauge("so", "", func() float64 { return Bool(false) })
	second.Counter(`x_total{decision="forwarded"}`, "", func() uint64 { return 4 })
	second.Counters("rule_total", "", func(add func(string, uint64)) { add(Labels("rule", "b"), 8) })
	second.Gauges("is", "", func(add func(string, float64)) { add("", Bool(true)) })
	second.Histogram("d_seconds", "", h)

	var b strings.Builder
	s.Write(&b)
	const want = `# HELP x_total Requests\nby decision.
# TYPE x_total counter
x_total{decision="forwarded"} 3
x_total{decision="rejected"} 9223372036854775808
x_total{decision="forwarded",store="b"} 4
# HELP limit The \\ limit.
# TYPE limit gauge
limit 16.7
# HELP d_seconds Durations.
# TYPE d_seconds histogram
d_seconds_bucket{rule="a",le="0.005"} 1
d_seconds_bucket{rule="a",le="1"} 1
d_seconds_bucket{rule="a",le="+Inf"} 2
d_seconds_sum{rule="a"} 2.005
d_seconds_count{rule="a"} 2
d_seconds_bucket{store="b",le="0.005"} 1
d_seconds_bucket{store="b",le="1"} 1
d_seconds_bucket{store="b",le="+Inf"} 2
d_seconds_sum{store="b"} 2.005
d_seconds_count{store="b"} 2
# HELP rule_total By rule.
# TYPE rule_total counter
rule_total{rule="a\"\\\n"} 7
rule_total{store="b",rule="b"} 8
# HELP odd Odd values.
# TYPE odd gauge
odd +Inf
# HELP is Whether it is so.
# TYPE is gauge
is{it="no"} 0
is{store="b"} 1
# HELP so Whether it is so.
# TYPE so gauge
so 1
so{store="b"} 0
`
	if b.String() != want {
		t.Errorf("have\n%s\nwant\n%s", b.String(), want)
	}
	mustParse(t, s)
}

// The runtime's families come from the library; they must fit in with ours.
func TestWriteRuntime(t *testing.T) {
	s := New()
	s.Runtime()
	s.Counter("x_total", "Ours.", func() uint64 { return 1 })
	s.Histogram("d_seconds", "Ours.", NewHistogram(LatencyBuckets()))
	p := mustParse(t, s)
	for name, kind := range map[string]string{
		"go_goroutines": "gauge", "go_memstats_alloc_bytes": "gauge", "process_cpu_seconds_total": "counter",
		"process_resident_memory_bytes": "gauge", "process_open_fds": "gauge", "x_total": "counter", "d_seconds": "histogram",
	} {
		if p.types[name] != kind {
			t.Errorf("%s is a %q, want a %s", name, p.types[name], kind)
		}
	}
}

func TestRegisterPanics(t *testing.T) {
	zero := func() uint64 { return 0 }
	f := func(why string, register func(s *Set)) {
		t.Helper()
		s := New()
		s.Counter("a_total", "A.", zero)
		defer func() {
			if v := recover(); v == nil || !strings.HasPrefix(fmt.Sprint(v), "bug: ") {
				t.Errorf("%s: recovered %v", why, v)
			}
		}()
		register(s)
	}
	f("the same name twice", func(s *Set) { s.Counter("a_total", "A.", zero) })
	f("two types in a family", func(s *Set) { s.Gauge(`a_total{x="y"}`, "A.", func() float64 { return 0 }) })
	f("a bad name", func(s *Set) { s.Counter("a b", "A.", zero) })
	f("bad labels", func(s *Set) { s.Counter(`b{x=y}`, "A.", zero) })
	f("a histogram of nothing", func(s *Set) { s.Histogram("h", "H.") })
	f("different bounds", func(s *Set) {
		s.Histogram("h", "H.", NewHistogram([]float64{1}), NewHistogram([]float64{2}))
	})
	f("no bounds", func(*Set) { NewHistogram(nil) })
	f("a bound of zero", func(*Set) { NewHistogram([]float64{0, 1}) })
	f("falling bounds", func(*Set) { NewHistogram([]float64{2, 1}) })
	f("a bound too many", func(*Set) { NewHistogram(make([]float64, boundsMax+1)) })
	//lint:ignore SA5012 it is the fault that is tested
	f("a label without value", func(*Set) { Labels("a") })
}

func TestLabels(t *testing.T) {
	f := func(want string, pairs ...string) {
		t.Helper()
		if have := Labels(pairs...); have != want {
			t.Errorf("Labels(%q) = %s, want %s", pairs, have, want)
		}
	}
	f("")
	f(`{a="b"}`, "a", "b")
	f(`{a="b",c="",d="x"}`, "a", "b", "c", "", "d", "x")
	f(`{a="\\n\"\n"}`, "a", "\\n\"\n")
}

// Every duration goes into the first bucket whose bound it does not exceed; the
// look-up table must agree with a plain search at and around every bound and
// every power of two.
func TestHistogramBuckets(t *testing.T) {
	for _, bounds := range [][]float64{LatencyBuckets(), DecisionBuckets(), {1e-9},
		{1e-9, 2e-9, 3e-9, 4e-9}, {3600, 1e9}} {
		probe := NewHistogram(bounds)
		var durations []int64
		for _, b := range probe.bounds {
			durations = append(durations, b-1, b, b+1)
		}
		for k := range 63 {
			durations = append(durations, 1<<k-1, 1<<k, 1<<k+1)
		}
		durations = append(durations, math.MaxInt64, 0, -1, math.MinInt64)
		for _, ns := range durations {
			h := NewHistogram(bounds)
			h.Observe(time.Duration(ns))
			want := 0
			for want < len(h.bounds) && ns > h.bounds[want] {
				want++
			}
			count := uint64(0)
			for i := range h.counts {
				count += h.counts[i].Load()
			}
			if h.counts[want].Load() != 1 || count != 1 {
				t.Errorf("bounds %v: %d ns is not in bucket %d", bounds, ns, want)
			}
			if sum := max(0, time.Duration(ns)); h.Sum() != sum {
				t.Errorf("bounds %v: sum of %d ns is %d", bounds, ns, h.Sum())
			}
		}
	}
}

func TestHistogramPartsAreSummed(t *testing.T) {
	s := New()
	a, b := NewHistogram(LatencyBuckets()), NewHistogram(LatencyBuckets())
	s.Histogram("d_seconds", "Both.", a, b)
	a.Observe(time.Millisecond)
	b.Observe(time.Millisecond)
	b.Observe(time.Minute)
	p := mustParse(t, s)
	for name, want := range map[string]float64{
		`d_seconds_bucket{le="0.0005"}`: 0, `d_seconds_bucket{le="0.001"}`: 2, `d_seconds_bucket{le="10"}`: 2,
		`d_seconds_bucket{le="+Inf"}`: 3, "d_seconds_count": 3, "d_seconds_sum": 60.002,
	} {
		if have, ok := p.samples[name]; !ok || have != want {
			t.Errorf("%s is %g, want %g", name, have, want)
		}
	}
}

// A scrape while loops write shows a page that is sound, though of no single
// instant.
func TestWriteWhileObserved(t *testing.T) {
	s := New()
	h := NewHistogram(LatencyBuckets())
	var c Counter
	s.Histogram("d_seconds", "Durations.", h)
	s.Counter("x_total", "Events.", c.Load)
	const events = 20_000
	var loop sync.WaitGroup
	loop.Go(func() {
		for i := range events {
			h.Observe(time.Duration(i) * time.Microsecond)
			c.Inc()
		}
	})
	var last float64
	for range 50 {
		p := mustParse(t, s)
		if n := p.samples["d_seconds_count"]; n < last {
			t.Fatalf("count fell from %g to %g", last, n)
		} else {
			last = n
		}
	}
	loop.Wait()
	if n := mustParse(t, s).samples["d_seconds_count"]; n != events {
		t.Errorf("count is %g in the end, want %d", n, events)
	}
}

// Families may appear while others scrape: a rule that is new.
func TestRegisterWhileWritten(t *testing.T) {
	s := New()
	var other sync.WaitGroup
	other.Go(func() {
		for i := range 100 {
			s.Counter("x_total"+Labels("n", fmt.Sprint(i)), "X.", func() uint64 { return 1 })
		}
	})
	s.Counter("first_total", "F.", func() uint64 { return 0 })
	for range 20 {
		mustParse(t, s)
	}
	other.Wait()
	if n := len(mustParse(t, s).samples); n != 101 {
		t.Errorf("%d samples in the end, want 101", n)
	}
}

func TestCounterAndGauge(t *testing.T) {
	var c Counter
	c.Inc()
	c.Add(41)
	if c.Load() != 42 {
		t.Errorf("counter reads %d, want 42", c.Load())
	}
	var g Gauge
	if g.Load() != 0 {
		t.Errorf("a new gauge reads %g", g.Load())
	}
	if g.Set(1.5); g.Load() != 1.5 {
		t.Errorf("gauge reads %g, want 1.5", g.Load())
	}
}

func TestMax(t *testing.T) {
	start := time.Unix(1_768_840_200, 999_999_999)
	at := func(s int) time.Time { return start.Add(time.Duration(s) * time.Second) }
	type step struct {
		at      int           // seconds
		observe time.Duration // 0: nothing
		want    time.Duration // read right after
	}
	for name, steps := range map[string][]step{
		"a new one reads 0":            {{at: 0, want: 0}},
		"the largest stays a minute":   {{0, 9, 9}, {1, 5, 9}, {59, 0, 9}, {60, 0, 5}, {61, 0, 0}},
		"within a second the largest":  {{0, 5, 5}, {0, 9, 9}, {0, 7, 9}},
		"a slot is used again":         {{0, 9, 9}, {64, 3, 3}, {128, 2, 2}},
		"negative ones do not count":   {{0, -4, 0}},
		"longer than 40 bits is kept":  {{0, time.Hour, maxValueMask}},
		"the clock may step back":      {{100, 9, 9}, {50, 3, 3}, {101, 0, 9}},
		"silence for a day is silence": {{0, 9, 9}, {86_400, 0, 0}, {86_400 + 64, 4, 4}},
	} {
		var m Max
		for i, s := range steps {
			if s.observe != 0 {
				m.Observe(at(s.at), s.observe)
			}
			if have := m.Read(at(s.at)); have != s.want {
				t.Errorf("%s: step %d, at %d s: reads %d, want %d", name, i, s.at, have, s.want)
			}
		}
	}
}

// A reader beside the loop never sees a duration that was not observed within
// its minute.
func TestMaxReadBesideItsLoop(t *testing.T) {
	var m Max
	start := time.Unix(1_768_840_200, 0)
	var loop sync.WaitGroup
	loop.Go(func() {
		for i := range 20_000 { // the duration tells its second
			m.Observe(start.Add(time.Duration(i)*time.Second), time.Duration(i+1))
		}
	})
	for i := range 20_000 {
		now := start.Add(time.Duration(i) * time.Second)
		if d := m.Read(now); d != 0 && (int(d) > i+1 || int(d) <= i+1-maxWindow) {
			t.Fatalf("at second %d: reads the duration of second %d", i, d-1)
		}
	}
	loop.Wait()
}

func TestHotStepsDoNotAllocate(t *testing.T) {
	h := NewHistogram(LatencyBuckets())
	var m Max
	var c Counter
	now := time.Unix(1_768_840_200, 0)
	if n := testing.AllocsPerRun(100, func() {
		h.Observe(3 * time.Millisecond)
		m.Observe(now, 3*time.Millisecond)
		c.Inc()
	}); n != 0 {
		t.Errorf("%g allocations", n)
	}
}
