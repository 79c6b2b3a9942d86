package backtest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"weir/advisor/forecast"
)

// meanDay forecasts the mean of all earlier days at the same time of day, multiplied by how
// far the rate lies above it now, smoothed and to the power of share. Share 0 is best for a
// rate that is the same every day but for noise, 1 for one whose level wanders.
func meanDay(y []float64, step time.Duration, k int, share float64) []float64 {
	season := slots(24*time.Hour, step)
	sums, counts := make([]float64, season), make([]float64, season)
	out := make([]float64, len(y))
	above := 0.0
	for i, v := range y {
		if n := counts[i%season]; n > 0 {
			above += .5 * (math.Log(v*n/sums[i%season]) - above)
		}
		sums[i%season] += v
		counts[i%season]++
		j := (i + k) % season
		out[i] = sums[j] / counts[j] * math.Exp(share*above) // NaN on the first day
	}
	return out
}

// steepHours is a different rate in every hour of the day, up to ten times that of the hour
// before, with noise. That of every day is the same.
func steepHours(r *rand.Rand, step time.Duration, days int) (rates []float64) {
	var hours [24]float64
	for h := range hours {
		hours[h] = 50 * math.Exp(r.NormFloat64())
	}
	for i := range days * slots(24*time.Hour, step) {
		at := time.Duration(i) * step % (24 * time.Hour)
		rates = append(rates, hours[int(at.Hours())]*math.Exp(.1*r.NormFloat64()))
	}
	return rates
}

// steepWander is steepHours with a level that wanders within hours.
func steepWander(r *rand.Rand, step time.Duration, days int) []float64 {
	rates, level := steepHours(r, step, days), 0.0
	keep := math.Exp(-step.Hours() / 6)
	for i := range rates {
		level = keep*level + .3*math.Sqrt(1-keep*keep)*r.NormFloat64()
		rates[i] *= math.Exp(level)
	}
	return rates
}

// flashCrowds is a daily wave on which a crowd comes at random about once a day: it rises to
// three to thirteen times the rate within a quarter of an hour, and fades over an hour.
func flashCrowds(r *rand.Rand, step time.Duration, days int) (rates []float64) {
	crowd, rise, left := 0.0, 0.0, 0
	perDay := slots(24*time.Hour, step)
	for i := range days * perDay {
		if left == 0 && crowd < .05 && r.IntN(perDay) == 0 {
			left = slots(15*time.Minute, step)
			rise = (2 + 10*r.Float64()) / float64(left)
		}
		if left > 0 {
			crowd += rise
			left--
		} else {
			crowd *= math.Exp(-step.Hours())
		}
		wave := 50 * (1 - .6*math.Cos(2*math.Pi*float64(i)/float64(perDay)))
		rates = append(rates, wave*(1+crowd)*math.Exp(.1*r.NormFloat64()))
	}
	return rates
}

// The situations in which a mixture of experts is easily worse than one simple method: the
// advisor's error stays near that of the best of them, which differs from row to row.
func TestSituations(t *testing.T) {
	for _, c := range []struct {
		name          string
		rates         func(r *rand.Rand, step time.Duration, days int) []float64
		step, horizon time.Duration
		days          int
		bound         float64 // ratio to the best simple method
	}{
		{"steep hours, by the hour", steepHours, time.Hour, time.Hour, 28, 1.04},
		{"steep hours, by ten minutes", steepHours, 10 * time.Minute, time.Hour, 14, 1.04},
		{"steep hours, wandering level", steepWander, 10 * time.Minute, 10 * time.Minute, 14, 1.08},
		{"flash crowds", flashCrowds, 5 * time.Minute, 5 * time.Minute, 21, .95},
	} {
		for seed := range uint64(2) {
			tr := &Trace{Name: c.name, Start: time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC), Step: c.step,
				Rates: c.rates(rand.New(rand.NewPCG(seed, 41)), c.step, c.days)}
			r, err := Replay(tr, Advisor(forecast.Settings{}), c.horizon)
			if err != nil {
				t.Fatal(err)
			}
			span := tr.Share(.3)
			row, err := r.Levels(span, c.horizon)
			if err != nil {
				t.Fatal(err)
			}
			for _, share := range [...]float64{0, 1} {
				sums, _ := sumErrors(tr.Rates, meanDay(tr.Rates, c.step, r.slots(0), share), span, r.slots(0))
				row.Others = append(row.Others, sums.column(fmt.Sprintf("mean_day_%g", share)))
			}
			if row.Ratio() > c.bound {
				t.Errorf("%s, %s ahead, seed %d: error %.4f, %s has %.4f: ratio %.3f, at most %.2f", c.name, c.horizon, seed,
					row.Own.WAPE, row.Best().Name, row.Best().WAPE, row.Ratio(), c.bound)
			}
		}
	}
}
