package forecast

import (
	"math"
	"testing"
)

// A smoothing is the sum of α (1-α)^i times the value i slots ago.
func TestSmoothingAgainstSum(t *testing.T) {
	var l levels
	var seen []float64
	for i := range 400 {
		y := 50 + 40*math.Sin(float64(i)/9)
		seen = append(seen, y)
		l.learn(y, 1, 1)
	}
	for j, a := range alphas {
		if a < .1 {
			continue // those are plain means for longer
		}
		sum, weight := 0.0, 0.0
		for i := range seen {
			w := a * math.Pow(1-a, float64(i))
			sum += w * seen[len(seen)-1-i]
			weight += w
		}
		if got := l.ses[j]; math.Abs(got-sum/weight) > 1e-6 {
			t.Errorf("α %g: %g, want %g", a, got, sum/weight)
		}
	}
}

// At first every smoothing is a plain mean, so a single first slot is soon forgotten.
func TestSmoothingBegins(t *testing.T) {
	var l levels
	for _, y := range []float64{100, 0, 0, 0} {
		l.learn(y, 1, 1)
	}
	if l.ses[0] != 25 {
		t.Errorf("the slowest of four slots is %g, want their mean 25", l.ses[0])
	}
}

// A slot after a longer time counts as much as several.
func TestSmoothingOverTime(t *testing.T) {
	for _, a := range alphas {
		once := share(a, 3)
		thrice := 1 - (1-a)*(1-a)*(1-a)
		if math.Abs(once-thrice) > 1e-12 {
			t.Errorf("α %g over three slots: %g, want %g", a, once, thrice)
		}
	}
}
