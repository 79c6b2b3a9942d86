package forecast

import (
	"math"
	"testing"
)

// A smoothing is the sum that it stands for: α (1-α)^i of the value i slots ago.
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
			continue // those are means first, for longer
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

// In the beginning every smoothing is a mean, so a single first slot is not believed
// for long.
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

func TestTrends(t *testing.T) {
	var l levels
	const c = .001
	for i := range 300 {
		l.learn(math.Exp(float64(i)*.001)-c, c, 1) // z grows by .001
	}
	now := 299 * .001
	for i, s := range holtSettings {
		ahead := math.Log(l.holtAhead(i, 10, c)+c) - now
		if ahead < 0 || ahead > .012 {
			t.Errorf("trend %v: ten slots ahead z grows by %g, want at most .01", s, ahead)
		}
	}
	if l.holtAhead(2, 1, c) <= l.ses[0] {
		t.Error("a trend upwards lies below the slowest level")
	}
	for i := range 20 {
		l.learn(1e9*float64(i%2), c, 1)
	}
	for i := range holtsN {
		if f := l.holtAhead(i, 60, c); math.IsInf(f, 0) || math.IsNaN(f) || f < 0 || f > math.Exp(growthOf+l.holts[i].level) {
			t.Errorf("trend %d after nonsense: %g", i, f)
		}
	}
}

func TestMiddle(t *testing.T) {
	var l levels
	for _, y := range []float64{3, 3, 900, 4, 5} {
		l.learn(y, 1, 1)
	}
	if got := l.middle(); got != 4 {
		t.Errorf("the median of 3 3 900 4 5 is %g", got)
	}
}
