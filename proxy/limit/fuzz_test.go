package limit_test

import (
	"testing"
	"time"

	"weir/proxy/limit"
	"weir/proxy/limit/limittest"
)

// FuzzConfig: whatever Validate accepts works, exactly; Rounded leaves that as it
// is, and what it changes it does not change twice.
func FuzzConfig(f *testing.F) {
	f.Add(uint8(1), int64(100), 60.0)
	f.Add(uint8(1), int64(1<<53), 1e-6)
	f.Add(uint8(2), int64(7), 0.000003)
	f.Add(uint8(2), int64(104_000_000), 86_400.0)
	f.Add(uint8(3), int64(9007), 33.333333)
	f.Add(uint8(3), int64(1<<53), 1e7)
	f.Add(uint8(3), int64(1), 100.0/3)
	f.Add(uint8(4), int64(65_536), 60.0)
	f.Add(uint8(5), int64(104_249), 86_400.0)
	f.Add(uint8(6), int64(9006), 33.333333)
	f.Fuzz(func(t *testing.T, algorithm uint8, permits int64, number float64) {
		c := limit.Config{Algorithm: limit.Algorithm(algorithm), Limit: permits, Window: number}
		switch c.Algorithm {
		case limit.Token, limit.Leaky:
			c = limit.Config{Algorithm: c.Algorithm, Capacity: permits, FillRate: number}
		case limit.GCRA:
			c.Limit, c.Burst = 1, permits
		case limit.Off:
			return
		}
		if again := c.Rounded().Rounded(); again != c.Rounded() && number == number {
			t.Fatalf("%+v rounded is %+v, and again %+v", c, c.Rounded(), again)
		}
		l, err := limit.New(c)
		if err != nil {
			return
		}
		if c.Rounded() != c || l.Config() != c && c.Burst != 0 {
			t.Fatalf("%+v became %+v rounded, and %+v as a limit", c, c.Rounded(), l.Config())
		}
		var s limit.State
		if granted, _ := l.Take(limittest.Epoch, &s, l.Burst(), 1); granted != 1 {
			t.Fatalf("%+v refuses its own permits at once", c)
		}
		if c.Algorithm == limit.Leaky {
			l.Take(limittest.Epoch, &s, 1, 1) // who goes at once takes no place
		}
		_, d := l.Take(limittest.Epoch, &s, 1, 1)
		if d.Allowed || d.RetryAfter <= 0 || d.RetryAfter == limit.Never || d.TTL() < d.ResetAfter {
			t.Fatalf("%+v, exhausted: %+v, TTL %v", c, d, d.TTL())
		}
		ready := limittest.Epoch + int64(d.RetryAfter/time.Microsecond)
		if l.RoomFor(ready-1, &s, limit.Charge{Cost: 1, N: 1}) != 0 || l.RoomFor(ready, &s, limit.Charge{Cost: 1,
			N: 1}) != 1 {
			t.Fatalf("%+v: RetryAfter %v is not exact", c, d.RetryAfter)
		}
	})
}
