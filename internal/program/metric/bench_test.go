package metric

import (
	"io"
	"testing"
	"time"
)

func BenchmarkHistogramObserve(b *testing.B) {
	h := NewHistogram(LatencyBuckets())
	d := time.Duration(0)
	b.ReportAllocs()
	for b.Loop() {
		h.Observe(d)
		d = (d + 777_777) % (12 * time.Second)
	}
}

func BenchmarkMaxObserve(b *testing.B) {
	var m Max
	now := time.Unix(1_768_840_200, 0)
	d := time.Duration(0)
	b.ReportAllocs()
	for b.Loop() {
		m.Observe(now, d)
		d = (d + 777_777) % time.Second
	}
}

func BenchmarkCounterInc(b *testing.B) {
	var c Counter
	b.ReportAllocs()
	for b.Loop() {
		c.Inc()
	}
}

func BenchmarkSetWrite(b *testing.B) {
	s := New()
	s.Runtime()
	for _, rule := range []string{"a", "b", "c", "d"} {
		s.Histogram("d_seconds"+Labels("rule", rule), "D.", NewHistogram(LatencyBuckets()), NewHistogram(LatencyBuckets()))
	}
	b.ReportAllocs()
	for b.Loop() {
		s.Write(io.Discard)
	}
}
