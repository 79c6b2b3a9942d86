package protect

import (
	"math/rand/v2"
	"testing"
	"time"
)

func TestDipsEnd(t *testing.T) {
	still, slower := TargetSlowdowns{Every: 5 * s, For: 400 * ms}, TargetSlowdowns{Every: 3 * s, For: 300 * ms, Speed: .25}
	for _, c := range []struct {
		d              TargetSlowdowns
		at, work, want time.Duration
	}{
		{TargetSlowdowns{}, 4900 * ms, 100 * ms, 5 * s},
		{still, -s, 100 * ms, -900 * ms},
		{still, 0, 100 * ms, 100 * ms},
		{still, 4500 * ms, 99 * ms, 4599 * ms},
		{still, 4500 * ms, 200 * ms, 5100 * ms}, // 100 ms before the dip, and the rest after it
		{still, 4700 * ms, 10 * ms, 5010 * ms},
		{still, 4999 * ms, 10 * s, 15800 * ms}, // two dips more
		{slower, 2800 * ms, 25 * ms, 2900 * ms},
		{slower, 2650 * ms, 75 * ms, 2800 * ms},
		{slower, 2900 * ms, 50 * ms, 3025 * ms},
	} {
		if got := c.d.end(c.at, c.work); got != c.want {
			t.Errorf("%+v: %v of work from %v ends at %v, want %v", c.d, c.work, c.at, got, c.want)
		}
	}
}

// Work may be done in parts, none ends before later work that began before it, and over whole
// intervals the speed is the mean.
func TestDipsLaws(t *testing.T) {
	chance := rand.New(rand.NewPCG(3, 3))
	for range 1000 {
		d := TargetSlowdowns{Every: time.Duration(1 + chance.IntN(int(s))), Speed: float64(chance.IntN(5)) / 4}
		d.For = time.Duration(chance.Int64N(int64(d.Every)))
		at, a, b := time.Duration(chance.IntN(int(2*s))), time.Duration(chance.IntN(int(s))),
			time.Duration(chance.IntN(int(s)))
		whole, parts := d.end(at, a+b), d.end(d.end(at, a), b)
		if d.Speed > 0 && (whole-parts).Abs() > time.Microsecond {
			t.Fatalf("%+v: from %v, %v and %v end at %v, together at %v", d, at, a, b, parts, whole)
		}
		if whole < at+a+b {
			t.Fatalf("%+v: %v of work from %v ends at %v", d, a+b, at, whole)
		}
		if d.end(at+a, b) < d.end(at, b) {
			t.Fatalf("%+v: work that begins %v after %v ends before it", d, a, at)
		}
		work := time.Duration(7 * float64(d.Every) * d.mean())
		if got := d.end(0, work-100); got > 7*d.Every || d.end(0, work+100) < 7*d.Every-d.For {
			t.Fatalf("%+v: the work of seven intervals ends after %v", d, got)
		}
	}
}
