package pace

import (
	"slices"
	"testing"
	"time"
)

func TestLaneWaiting(t *testing.T) {
	schedule := New(Config{Profile: steady(t, 10), Length: second}).ForLoop(1, 2) // due at 150, 350, 550, 750, 950 ms
	for _, c := range []struct {
		at   time.Duration
		want uint64
	}{
		{0, 0}, {150 * time.Millisecond, 0}, {151 * time.Millisecond, 1}, {600 * time.Millisecond, 3},
		{700 * time.Millisecond, 3},
	} {
		if got := schedule.Waiting(c.at); got != c.want {
			t.Errorf("at %v %d wait, want %d", c.at, got, c.want)
		}
	}
	schedule.Take()
	if got := schedule.Waiting(700 * time.Millisecond); got != 2 {
		t.Errorf("after taking one %d wait, want 2", got)
	}
	for range 3 {
		schedule.Take()
	}
	if got := schedule.Waiting(700 * time.Millisecond); got != 0 {
		t.Errorf("after taking all and one ahead %d wait, want 0", got)
	}
	if got := schedule.Waiting(5 * second); got != 1 {
		t.Errorf("in the end %d wait, want 1", got)
	}
}

// What waits is what Take would yield before that time, whatever was asked and
// taken meanwhile.
func TestWaitingAgreesWithTake(t *testing.T) {
	for _, c := range cases(t, Uniform, Poisson) {
		schedule := New(c.Config).ForLoop(1, 3)
		dues := take(New(c.Config).ForLoop(1, 3))
		taken := 0
		for i := range 40 {
			at := c.Length * time.Duration(i) / 40
			due, _ := slices.BinarySearch(dues, at)
			if got, want := schedule.Waiting(at), max(0, due-taken); got != uint64(want) {
				t.Fatalf("%s: at %v %d wait, want %d", c.name, at, got, want)
			}
			for range i % 7 * 5 {
				if _, ok := schedule.Due(); ok {
					schedule.Take()
					taken++
				}
			}
		}
	}
}

func TestLaneCutAndDrop(t *testing.T) {
	schedule := New(Config{Profile: steady(t, 10), Length: second}).ForLoop(1, 2)
	schedule.Take()
	schedule.Cut(600 * time.Millisecond)
	if got := schedule.Waiting(second); got != 2 {
		t.Errorf("after the cut %d wait, want 2", got)
	}
	if got := schedule.Drop(); got != 2 {
		t.Errorf("dropped %d, want 2", got)
	}
	if _, ok := schedule.Due(); ok {
		t.Error("a dropped lane still has an arrival")
	}
	if got := schedule.Drop() + schedule.Waiting(second); got != 0 {
		t.Errorf("dropped %d from an empty lane", got)
	}
}

// A cut before what was known to wait takes it back.
func TestCutTakesBack(t *testing.T) {
	schedule := New(Config{Profile: steady(t, 10), Length: second}).ForLoop(0, 1)
	schedule.Waiting(900 * time.Millisecond)
	schedule.Cut(300 * time.Millisecond)
	if got := schedule.Drop(); got != 3 {
		t.Errorf("after a cut at 0.3 s %d are dropped, want 3", got)
	}
}

func TestTakeAllocatesNothing(t *testing.T) {
	for _, c := range cases(t, Uniform, Poisson) {
		schedule := New(c.Config).ForLoop(0, 2)
		if n := testing.AllocsPerRun(100, func() {
			schedule.Take()
			schedule.Waiting(second)
		}); n != 0 {
			t.Errorf("%s: Take and Waiting allocate %v times", c.name, n)
		}
	}
}

func BenchmarkTake(b *testing.B) {
	for _, process := range []Process{Uniform, Poisson} {
		b.Run(process.String(), func(b *testing.B) {
			schedule := New(Config{Profile: steady(b, 12_345.678), Length: 1000 * time.Hour, Arrivals: process}).ForLoop(0, 2)
			for b.Loop() {
				schedule.Take()
			}
		})
	}
}

func take(l LoopSchedule) []time.Duration {
	var all []time.Duration
	for due, ok := l.Due(); ok; due, ok = l.Due() {
		all = append(all, due)
		l.Take()
	}
	return all
}
