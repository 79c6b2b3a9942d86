package advisor

import (
	"math"
	"math/rand/v2"
	"time"
	"weir/bench/forecast/backtest"
)

// synthetic returns generated traces, which replace the recorded ones if there are none:
// two weeks in slots of a minute each, of which three hours of the last Thursday are played.
//
//   - day and night: a daily wave, lower at weekends, with autocorrelated noise;
//   - crowd: the same with a match at seven each evening, which triples the load within ten
//     minutes for two hours, with less in the break;
//   - clockwork: a constant load with a spike of three minutes each half hour;
//   - walk: a random walk of the level, without seasons.
func synthetic() []*trace {
	start := time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC) // a Monday
	shapes := []struct {
		name  string
		hour  int // at which the span begins
		shape func(minute int, wander float64) float64
	}{
		{"day and night", 7, func(m int, w float64) float64 { return wave(m) * (1 + 0.2*w) }},
		{"crowd", 18, func(m int, w float64) float64 { return wave(m) * (1 + 0.1*w) * (1 + 2*match(m)) }},
		{"clockwork", 10, func(m int, w float64) float64 {
			if m%30 < 3 {
				return 3 + 0.1*w
			}
			return 1 + 0.1*w
		}},
		{"walk", 10, func(m int, w float64) float64 { return math.Exp(0.5 * w) }},
	}
	var all []*trace
	for i, s := range shapes {
		r := rand.New(rand.NewPCG(uint64(i), 1998))
		t := &trace{Trace: backtest.Trace{Name: s.name, Start: start, Step: time.Minute}, dispersion: 2,
			from: start.Add((10*24 + time.Duration(s.hour)) * time.Hour), span: 3 * time.Hour}
		wander := 0.0
		for m := range 14 * 24 * 60 {
			wander = 0.98*wander + 0.2*r.NormFloat64()
			t.Rates = append(t.Rates, max(0.05, s.shape(m, wander)))
		}
		all = append(all, t)
	}
	return all
}

const minutesOfDay = 24 * 60

// wave returns the daily wave: 1 in the mean of a working day, lowest at four.
func wave(minute int) float64 {
	day := minute / minutesOfDay
	level := 1 - 0.6*math.Cos(2*math.Pi*(float64(minute%minutesOfDay)/minutesOfDay-4.0/24))
	if day%7 >= 5 {
		level *= 0.6
	}
	return level
}

// match returns the strength of a match, 0 to 1, with a break after three quarters of an
// hour.
func match(minute int) float64 {
	into := float64(minute%minutesOfDay) - 19*60
	switch {
	case into < 0 || into > 120:
		return 0
	case into < 10:
		return into / 10
	case into > 45 && into < 60:
		return 0.5
	case into > 110:
		return (120 - into) / 10
	}
	return 1
}
