package pace

import (
	"slices"
	"testing"
	"time"
)

func TestLaneWaiting(t *testing.T) {
	lane := New(Config{Profile: steady(t, 10), Length: second}).Lane(1, 2) // due at 150, 350, 550, 750, 950 ms
	for _, c := range []struct {
		at   time.Duration
		want uint64
	}{
		{0, 0}, {150 * time.Millisecond, 0}, {151 * time.Millisecond, 1}, {600 * time.Millisecond, 3},
		{700 * time.Millisecond, 3},
	} {
		if got := lane.Waiting(c.at); got != c.want {
			t.Errorf("at %v %d wait, want %d", c.at, got, c.want)
		}
	}
	lane.Take()
	if got := lane.Waiting(700 * time.Millisecond); got != 2 {
		t.Errorf("after taking one %d wait, want 2", got)
	}
	for range 3 {
		lane.Take()
	}
	if got := lane.Waiting(700 * time.Millisecond); got != 0 {
		t.Errorf("after taking all and one ahead %d wait, want 0", got)
	}
	if got := lane.Waiting(5 * second); got != 1 {
		t.Errorf("in the end %d wait, want 1", got)
	}
}

// What waits is what Take would yield before that time, whatever was asked and
// taken meanwhile.
func TestWaitingAgreesWithTake(t *testing.T) {
	for _, c := range cases(t, Uniform, Poisson) {
		lane := New(c.Config).Lane(1, 3)
		dues := take(New(c.Config).Lane(1, 3))
		taken := 0
		for i := range 40 {
			at := c.Length * time.Duration(i) / 40
			due, _ := slices.BinarySearch(dues, at)
			if got, want := lane.Waiting(at), max(0, due-taken); got != uint64(want) {
				t.Fatalf("%s: at %v %d wait, want %d", c.name, at, got, want)
			}
			for range i % 7 * 5 {
				if _, ok := lane.Due(); ok {
					lane.Take()
					taken++
				}
			}
		}
	}
}

func TestLaneCutAndDrop(t *testing.T) {
	lane := New(Config{Profile: steady(t, 10), Length: second}).Lane(1, 2)
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
	if got := lane.Drop() + lane.Waiting(second); got != 0 {
		t.Errorf("dropped %d from an empty lane", got)
	}
}

// A cut before what was known to wait takes it back.
func TestCutTakesBack(t *testing.T) {
	lane := New(Config{Profile: steady(t, 10), Length: second}).Lane(0, 1)
	lane.Waiting(900 * time.Millisecond)
	lane.Cut(300 * time.Millisecond)
	if got := lane.Drop(); got != 3 {
		t.Errorf("after a cut at 0.3 s %d are dropped, want 3", got)
	}
}

func TestTakeAllocatesNothing(t *testing.T) {
	for _, c := range cases(t, Uniform, Poisson) {
		lane := New(c.Config).Lane(0, 2)
		if n := testing.AllocsPerRun(100, func() {
			lane.Take()
			lane.Waiting(second)
		}); n != 0 {
			t.Errorf("%s: Take and Waiting allocate %v times", c.name, n)
		}
	}
}

func BenchmarkTake(b *testing.B) {
	for _, process := range []Process{Uniform, Poisson} {
		b.Run(process.String(), func(b *testing.B) {
			lane := New(Config{Profile: steady(b, 12_345.678), Length: 1000 * time.Hour, Arrivals: process}).Lane(0, 2)
			for b.Loop() {
				lane.Take()
			}
		})
	}
}

func take(l Lane) []time.Duration {
	var all []time.Duration
	for due, ok := l.Due(); ok; due, ok = l.Due() {
		all = append(all, due)
		l.Take()
	}
	return all
}
