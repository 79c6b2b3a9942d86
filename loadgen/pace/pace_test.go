package pace

import (
	"fmt"
	"testing"
	"time"

	"weir/internal/test/testkit"
	"weir/loadgen/profile"
)

const second = time.Second

func ExampleSchedule() {
	steady, err := profile.NewConstant(5)
	if err != nil {
		panic(err)
	}
	// Two loops of one generator, one second of five requests.
	s := New(Config{Profile: steady, Length: time.Second})
	for loop := range 2 {
		schedule := s.ForLoop(loop, 2)
		for due, ok := schedule.Due(); ok; due, ok = schedule.Due() {
			fmt.Println("loop", loop, "request", schedule.Index(), "at", due)
			schedule.Take()
		}
	}
	// Output:
	// loop 0 request 0 at 100ms
	// loop 0 request 2 at 500ms
	// loop 0 request 4 at 900ms
	// loop 1 request 1 at 300ms
	// loop 1 request 3 at 700ms
}

func TestArrivals(t *testing.T) {
	for _, c := range []struct {
		rps    float64
		length time.Duration
		want   uint64
	}{
		{100, 60 * second, 6000},
		{1, second, 1},
		{1, second / 2, 0},   // due at half a second, which the run does not see
		{1, second/2 + 1, 1}, // and now it does
		{0.1, 60 * second, 6},
		{33.333333, 3 * second, 100},
		{1e6, 1000 * second, 1e9},
		{7, 1_000_000_000 * second, 7e9},
	} {
		schedule := New(Config{Profile: steady(t, c.rps), Length: c.length}).ForLoop(0, 1)
		if got := schedule.Waiting(c.length); got != c.want {
			t.Errorf("%v/s for %v: %d arrivals, want %d", c.rps, c.length, got, c.want)
		}
		if got := schedule.Waiting(c.length + time.Hour); got != c.want {
			t.Errorf("%v/s for %v: %d arrivals by an hour later, want %d", c.rps, c.length, got, c.want)
		}
	}
}

// Arrival 10⁹ is due where it belongs, to the nanosecond.
func TestNoDrift(t *testing.T) {
	for _, c := range []struct {
		rps  float64
		k    uint64
		want time.Duration
	}{
		{1000, 1e9, 1_000_000*second + 500*time.Microsecond},
		{300_000, 1e9, 3333*second + 333_335_000},   // (10⁹ + ½) / 300,000 s
		{7, 7_000_000_000, 1e9*second + 71_428_571}, // 10⁹ s and ½ / 7
		{999_999.999999, 999_999_999_999, 1e6*second + 500},
	} {
		schedule := New(Config{Profile: steady(t, c.rps), Length: c.want + second}).ForLoop(0, 1)
		schedule.head.step(c.k - 1)
		schedule.Take()
		if due, ok := schedule.Due(); due != c.want || !ok || schedule.Index() != c.k {
			t.Errorf("arrival %d at %v/s is due at %d ns, want %d ns", schedule.Index(), c.rps, due, c.want)
		}
	}
}

// The gaps of a constant rate are the same everywhere; where the gap is not a
// whole number of nanoseconds they differ by one at most.
func TestGapsAreUniform(t *testing.T) {
	for _, c := range []struct {
		rps         float64
		short, long time.Duration
	}{
		{1000, time.Millisecond, time.Millisecond},
		{8, 125 * time.Millisecond, 125 * time.Millisecond},
		{3, 333_333_333, 333_333_334},
		{700_000, 1428, 1429},
	} {
		for _, from := range []uint64{0, 1e6, 1e9} {
			schedule := New(Config{Profile: steady(t, c.rps), Length: 2e9 * second / time.Duration(c.rps)}).ForLoop(0, 1)
			schedule.head.step(from)
			schedule.Take()
			for range 1000 {
				before, _ := schedule.Due()
				schedule.Take()
				due, ok := schedule.Due()
				if gap := due - before; gap < c.short || gap > c.long || !ok {
					t.Fatalf("at %v/s the gap before arrival %d is %d ns, want %d to %d", c.rps, schedule.Index(), gap, c.short,
						c.long)
				}
			}
		}
	}
}

func TestRateIsTheShardsOwn(t *testing.T) {
	s := New(Config{Profile: steady(t, 900), Length: second, Shard: Shard{Index: 2, Of: 3}})
	for _, c := range []struct {
		at   time.Duration
		want float64
	}{
		{-1, 0}, {0, 300}, {second - 1, 300}, {second, 0},
	} {
		if got := s.Rate(c.at); got != c.want {
			t.Errorf("rate at %v is %v, want %v", c.at, got, c.want)
		}
	}
	if got := s.Expected(); got != 300 {
		t.Errorf("%v arrivals are expected, want 300", got)
	}
}

// Peaks are those within the run, at the shard's own rate.
func TestPeakFrom(t *testing.T) {
	p := testkit.Must(profile.NewBurst(profile.Burst{BaseRps: 1, SpikeRps: 10, SpikeDuration: 1, SpikePeriod: 4}))(t)
	s := New(Config{Profile: p, Length: 7 * second, Shard: Shard{Of: 2}})
	if peak, ok := s.PeakFrom(0); !ok || peak.Start != 3*second || peak.RPS != 5 {
		t.Errorf("the first peak is %+v, %v", peak, ok)
	}
	if peak, ok := s.PeakFrom(3*second + 1); ok {
		t.Errorf("there is a second peak %+v when the run is over", peak)
	}
}

func TestShardValidate(t *testing.T) {
	for _, c := range []struct {
		shard Shard
		field string
	}{
		{Shard{}, ""},
		{Shard{0, 1}, ""},
		{Shard{shardsMax - 1, shardsMax}, ""},
		{Shard{0, shardsMax + 1}, "of"},
		{Shard{0, -1}, "of"},
		{Shard{1, 0}, "of"},
		{Shard{1, 1}, "index"},
		{Shard{-1, 2}, "index"},
	} {
		if field, fault := c.shard.Validate(); field != c.field {
			t.Errorf("shard %+v: fault in %q (%s), want %q", c.shard, field, fault, c.field)
		}
	}
}

func steady(t testing.TB, rps float64) *profile.Profile {
	t.Helper()
	p, err := profile.NewConstant(rps)
	if err != nil {
		t.Fatalf("profile of %v/s: %v", rps, err)
	}
	return p
}
