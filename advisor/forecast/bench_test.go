package forecast

import (
	"math/rand/v2"
	"testing"
	"time"
)

// Observing allocates nothing once the forecaster has its size, except for the history.
func TestObserveAllocates(t *testing.T) {
	f := New(Settings{})
	rate := noisy(rand.New(rand.NewPCG(12, 12)))
	at := feed(f, epoch, 5*time.Minute, 300, rate)
	i := 0
	if n := testing.AllocsPerRun(100, func() {
		at = at.Add(5 * time.Minute)
		f.Observe(at, 5*time.Minute, rate(i))
		i++
	}); n > 1 {
		t.Errorf("an observation allocates %g times", n)
	}
}

func benchmarkObserve(b *testing.B, step time.Duration) {
	f := New(Settings{})
	rate := noisy(rand.New(rand.NewPCG(13, 13)))
	at := feed(f, epoch, step, 1000, rate)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		at = at.Add(step)
		f.Observe(at, step, rate(i))
	}
}

func BenchmarkObserveSecond(b *testing.B)      { benchmarkObserve(b, time.Second) }
func BenchmarkObserveHalfMinute(b *testing.B)  { benchmarkObserve(b, 30*time.Second) }
func BenchmarkObserveMinute(b *testing.B)      { benchmarkObserve(b, time.Minute) }
func BenchmarkObserveFiveMinutes(b *testing.B) { benchmarkObserve(b, 5*time.Minute) }
func BenchmarkObserveHalfHour(b *testing.B)    { benchmarkObserve(b, 30*time.Minute) }

func BenchmarkOutlook(b *testing.B) {
	f := New(Settings{})
	feed(f, epoch, time.Minute, 500, noisy(rand.New(rand.NewPCG(14, 14))))
	b.ReportAllocs()
	for b.Loop() {
		f.Outlook(time.Hour, time.Minute)
	}
}

func BenchmarkState(b *testing.B) {
	f := New(Settings{})
	feed(f, epoch, time.Minute, 500, noisy(rand.New(rand.NewPCG(15, 15))))
	for b.Loop() {
		f.Encode()
	}
}
