package policy

import (
	"slices"
	"testing"
	"time"
)

// BenchmarkAdvise is one snapshot of a target at its capacity, with a day of
// history and a forecast of 15 minutes.
func BenchmarkAdvise(b *testing.B) {
	p := New(with(160))
	o := expect(slices.Repeat([]float64{300}, 15)...)
	i := 0
	advise := func() {
		i++
		p.Advise(seen(i, func(s *Snapshot) {
			s.Observed, s.Forwarded, s.RejectedShare = 300, 150, 0.5
			s.P95 = time.Duration(200+50*(i%5)) * time.Millisecond
			s.Limit.FillRate = 150
		}), o)
	}
	for range 1500 {
		advise()
	}
	b.ReportAllocs()
	for b.Loop() {
		advise()
	}
}
