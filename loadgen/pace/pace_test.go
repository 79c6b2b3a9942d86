package pace

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"weir/loadgen/profile"
)

const second = time.Second

func ExampleSchedule() {
	steady, err := profile.NewConstant(5)
	if err != nil {
		panic(err)
	}
	// Two loops of one generator, one second of five requests.
	s := New(steady, time.Second, Shard{})
	for loop := range 2 {
		lane := s.Lane(loop, 2)
		for due, ok := lane.Due(); ok; due, ok = lane.Due() {
			fmt.Println("loop", loop, "at", due)
			lane.Take()
		}
	}
	// Output:
	// loop 0 at 100ms
	// loop 0 at 500ms
	// loop 0 at 900ms
	// loop 1 at 300ms
	// loop 1 at 700ms
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
		if got := schedule(t, c.rps, c.length, Shard{}).Arrivals(); got != c.want {
			t.Errorf("%v/s for %v: %d arrivals, want %d", c.rps, c.length, got, c.want)
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
		if got := schedule(t, c.rps, second, Shard{}).Due(c.k); got != c.want {
			t.Errorf("arrival %d at %v/s is due at %d ns, want %d ns", c.k, c.rps, got, c.want)
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
		s := schedule(t, c.rps, second, Shard{})
		for _, from := range []uint64{0, 1e6, 1e9} {
			for k := from; k < from+1000; k++ {
				gap := s.Due(k+1) - s.Due(k)
				if gap < c.short || gap > c.long {
					t.Fatalf("at %v/s the gap after arrival %d is %d ns, want %d to %d", c.rps, k, gap, c.short, c.long)
				}
			}
		}
	}
}

// However the schedule is dealt to generators and loops, together they send
// exactly what one alone would.
func TestHandsAddUp(t *testing.T) {
	for _, c := range []struct {
		rps          float64
		shards, loop int
	}{
		{1000, 1, 1}, {1000, 1, 2}, {1000, 3, 1}, {997.13, 3, 2}, {1.5, 7, 4}, {0.5, 5, 3},
	} {
		whole := take(schedule(t, c.rps, 3*second, Shard{}).Lane(0, 1))
		var parts []time.Duration
		var arrivals, before uint64
		for i := range c.shards {
			s := schedule(t, c.rps, 3*second, Shard{Index: i, Of: c.shards})
			arrivals += s.Arrivals()
			before += s.Before(second)
			for j := range c.loop {
				parts = append(parts, take(s.Lane(j, c.loop))...)
			}
		}
		slices.Sort(parts)
		if !slices.Equal(whole, parts) {
			t.Errorf("%v/s by %d generators with %d loops: %d arrivals that differ from the %d of one", c.rps, c.shards, c.loop, len(parts), len(whole))
		}
		if arrivals != uint64(len(whole)) {
			t.Errorf("%v/s by %d generators: shares of %d arrivals, want %d", c.rps, c.shards, arrivals, len(whole))
		}
		if want := countBefore(whole, second); before != want {
			t.Errorf("%v/s by %d generators: %d due in the first second, want %d", c.rps, c.shards, before, want)
		}
	}
}

func TestBeforeAgreesWithDue(t *testing.T) {
	for _, rps := range []float64{1, 3, 999.999, 1e6 / 7} {
		s := schedule(t, rps, 2*second, Shard{Index: 1, Of: 2})
		for i := range min(s.Arrivals(), 2000) {
			at := s.Due(i)
			if got := s.Before(at); got != i {
				t.Fatalf("at %v/s %d are due before arrival %d", rps, got, i)
			}
			if got := s.Before(at + 1); got != i+1 {
				t.Fatalf("at %v/s %d are due when arrival %d is", rps, got, i)
			}
		}
	}
}

func TestLaneWaiting(t *testing.T) {
	lane := schedule(t, 10, second, Shard{}).Lane(1, 2) // due at 150, 350, 550, 750, 950 ms
	for _, c := range []struct {
		at   time.Duration
		want uint64
	}{
		{0, 0}, {150 * time.Millisecond, 0}, {151 * time.Millisecond, 1}, {600 * time.Millisecond, 3}, {5 * second, 5},
	} {
		if got := lane.Waiting(c.at); got != c.want {
			t.Errorf("at %v %d wait, want %d", c.at, got, c.want)
		}
	}
	lane.Take()
	if got := lane.Waiting(600 * time.Millisecond); got != 2 {
		t.Errorf("after taking one %d wait, want 2", got)
	}
}

func TestLaneCutAndDrop(t *testing.T) {
	lane := schedule(t, 10, second, Shard{}).Lane(1, 2)
	lane.Take()
	lane.Cut(600 * time.Millisecond)
	if got := lane.Waiting(second); got != 2 {
		t.Errorf("after the cut %d wait, want 2", got)
	}
	if got := lane.Drop(); got != 2 {
		t.Errorf("dropped %d, want 2", got)
	}
	if _, ok := lane.Due(); ok {
		t.Error("a dropped lane still has an arrival")
	}
	if got := lane.Drop(); got != 0 {
		t.Errorf("dropped %d from an empty lane", got)
	}
}

func TestRateIsTheShardsOwn(t *testing.T) {
	s := schedule(t, 900, second, Shard{Index: 2, Of: 3})
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

func TestTakeAllocatesNothing(t *testing.T) {
	lane := schedule(t, 1e6, time.Hour, Shard{}).Lane(0, 2)
	if n := testing.AllocsPerRun(1000, lane.Take); n != 0 {
		t.Errorf("Take allocates %v times", n)
	}
}

func BenchmarkTake(b *testing.B) {
	lane := schedule(b, 12_345.678, time.Hour, Shard{}).Lane(0, 2)
	for b.Loop() {
		lane.Take()
	}
}

func schedule(t testing.TB, rps float64, length time.Duration, shard Shard) Schedule {
	t.Helper()
	p, err := profile.NewConstant(rps)
	if err != nil {
		t.Fatalf("profile of %v/s: %v", rps, err)
	}
	return New(p, length, shard)
}

func take(l Lane) []time.Duration {
	var all []time.Duration
	for due, ok := l.Due(); ok; due, ok = l.Due() {
		all = append(all, due)
		l.Take()
	}
	return all
}

func countBefore(all []time.Duration, t time.Duration) uint64 {
	n, _ := slices.BinarySearch(all, t)
	return uint64(n)
}
