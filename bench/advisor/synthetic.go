package advisor

import (
	"math"
	"math/rand/v2"
	"time"
	"weir/bench/backtest"
)

// The traffic that is made up where no traces are at hand: two weeks of minutes
// each, drawn from a seed, of which the last Thursday's afternoon is played.
//
//   - day and night: a daily wave, quieter at weekends, with noise that wanders;
//   - crowd: the same with a match each evening at seven, which triples the load
//     within ten minutes for two hours, less in the break;
//   - clockwork: a flat load with a spike of three minutes at each half hour;
//   - walk: the level wanders without any season.
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
		t := &trace{Trace: backtest.Trace{Name: s.name, Start: start, Step: time.Minute}, dispersion: 2, from: start.Add((10*24 + time.Duration(s.hour)) * time.Hour), span: 3 * time.Hour}
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

// wave is the daily wave: 1 on average of a working day, least at four.
func wave(minute int) float64 {
	day := minute / minutesOfDay
	level := 1 - 0.6*math.Cos(2*math.Pi*(float64(minute%minutesOfDay)/minutesOfDay-4.0/24))
	if day%7 >= 5 {
		level *= 0.6
	}
	return level
}

// match is 1 during an evening's match, with a break after three quarters of an
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
