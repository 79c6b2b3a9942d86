package season

import (
	"testing"
	"time"
)

func TestAtDoesNotAllocate(t *testing.T) {
	m, _ := full(t)
	at := begin.Add(800 * oneDay)
	if n := testing.AllocsPerRun(100, func() { m.Rate(at) }); n != 0 {
		t.Errorf("a value allocates %g times, must not", n)
	}
}

func BenchmarkFit(b *testing.B) {
	rows := rowsOf(10080, 5*time.Minute, noisy(busy, .1))
	var shifts []time.Time
	for i := range 5 {
		shifts = append(shifts, begin.Add(time.Duration(100+150*i)*time.Hour))
	}
	b.ReportAllocs()
	for b.Loop() {
		mustFit(b, rows, shifts, Settings{})
	}
}

func BenchmarkAt(b *testing.B) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		b.Fatal(err)
	}
	m := mustFit(b, rowsOf(10080, 5*time.Minute, noisy(busy, .1)), nil, Settings{Location: berlin})
	at := begin.Add(36 * oneDay)
	b.ReportAllocs()
	for b.Loop() {
		at = at.Add(time.Minute)
		m.At(at)
	}
}
