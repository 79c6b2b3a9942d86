package prophetref

import (
	"errors"
	"math"
	"slices"
	"sort"
	"time"
)

// A Split says how rows are cut for a back-test.
type Split struct {
	Initial, Period, Horizon time.Duration
	CutoffsMax               int // take the last ones only; 0: all
}

// A Forecast is what a model that knew the rows up to Cutoff said of a later one.
type Forecast struct {
	Cutoff, At    time.Time
	Value, Median float64
	Low, High     float64 // the central 80 %
	Horizon       time.Duration
}

// Cutoffs returns the instants at which a back-test cuts the rows, ascending:
// every Period back from the last that leaves a whole Horizon, as long as
// Initial lies before it.
func (s Split) Cutoffs(rows []Row) []time.Time {
	if len(rows) == 0 || s.Period <= 0 || s.Horizon <= 0 {
		return nil
	}
	var cuts []time.Time
	first, last := rows[0].At, rows[len(rows)-1].At
	for at := last.Add(-s.Horizon); !at.Before(first.Add(s.Initial)); at = at.Add(-s.Period) {
		if s.CutoffsMax > 0 && len(cuts) == s.CutoffsMax {
			break
		}
		cuts = append(cuts, at)
	}
	slices.Reverse(cuts)
	return cuts
}

// Backtest fits at every cut-off and forecasts the rows within Horizon of it.
// rows are ascending.
func Backtest(rows []Row, settings Settings, s Split) ([]Forecast, error) {
	cuts := s.Cutoffs(rows)
	if len(cuts) == 0 {
		return nil, errors.New("prophetref: rows are too short for the split, which must have a period and a horizon above 0")
	}
	var out []Forecast
	for _, cut := range cuts {
		n := sort.Search(len(rows), func(i int) bool { return rows[i].At.After(cut) })
		m, err := Fit(rows[:n], settings)
		if err != nil {
			return nil, err
		}
		for _, r := range rows[n:] {
			if r.At.After(cut.Add(s.Horizon)) {
				break
			}
			f := Forecast{Cutoff: cut, At: r.At, Value: r.Value, Median: m.At(r.At), Horizon: r.At.Sub(cut)}
			f.Low, f.High = m.Interval(r.At, 0.8)
			out = append(out, f)
		}
	}
	return out, nil
}

// A Score is the mean over a tenth of all forecasts, those with horizons up to
// Horizon.
type Score struct {
	Horizon                                time.Duration
	MSE, RMSE, MAE, MAPE, SMAPE, Covered80 float64
}

// errors of a forecast, in the order of Score.
func (f Forecast) errors() [5]float64 {
	e := f.Value - f.Median
	covered := 0.0
	if f.Low <= f.Value && f.Value <= f.High {
		covered = 1
	}
	both := (math.Abs(f.Value) + math.Abs(f.Median)) / 2
	if both > 0 {
		both = math.Abs(e) / both
	}
	return [5]float64{e * e, math.Abs(e), math.Abs(e) / math.Abs(f.Value), both, covered}
}

// Scores returns a score for every horizon that a tenth of the forecasts reach
// up to, ascending.
func Scores(forecasts []Forecast) []Score {
	sorted := slices.Clone(forecasts)
	slices.SortStableFunc(sorted, func(a, b Forecast) int { return int(a.Horizon - b.Horizon) })
	window := max(1, len(sorted)/10)
	var scores []Score
	for to := 1; to <= len(sorted); to++ {
		if to < window || to < len(sorted) && sorted[to].Horizon == sorted[to-1].Horizon {
			continue // the window would split a horizon at its end
		}
		scores = append(scores, score(sorted[:to], window))
	}
	return scores
}

// score averages the last n of sorted. Where that splits a horizon at its
// beginning, all of that horizon share the part that is left.
func score(sorted []Forecast, n int) Score {
	from := len(sorted) - n
	first, last := sorted[from].Horizon, sorted[len(sorted)-1].Horizon
	low := sort.Search(len(sorted), func(i int) bool { return sorted[i].Horizon >= first })
	high := sort.Search(len(sorted), func(i int) bool { return sorted[i].Horizon > first })
	share := float64(high-from) / float64(high-low)
	var mean [5]float64
	for i := low; i < len(sorted); i++ {
		weight := 1 / float64(n)
		if i < high {
			weight *= share
		}
		for j, e := range sorted[i].errors() {
			mean[j] += weight * e
		}
	}
	return Score{last, mean[0], math.Sqrt(mean[0]), mean[1], mean[2], mean[3], mean[4]}
}
