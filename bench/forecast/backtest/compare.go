package backtest

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"
)

// A Column has the errors of a method: WAPE, and RMSE per second.
type Column struct {
	Name       string
	WAPE, RMSE float64
}

// A Comparison is one row of a table: our error at a horizon of a trace, and those of other
// methods for the same targets.
type Comparison struct {
	Trace   string
	Horizon time.Duration
	N       int // targets
	Own     Column
	Others  []Column
}

// Best returns the other method with the smallest WAPE.
func (c Comparison) Best() Column {
	best := Column{WAPE: math.Inf(1), RMSE: math.Inf(1)}
	for _, o := range c.Others {
		if o.WAPE < best.WAPE {
			best = o
		}
	}
	return best
}

// Other returns the column of another method; false if there is none of that name.
func (c Comparison) Other(name string) (Column, bool) {
	for _, o := range c.Others {
		if o.Name == name {
			return o, true
		}
	}
	return Column{}, false
}

// Ratio returns our WAPE divided by that of the best other method.
func (c Comparison) Ratio() float64 { return c.Own.WAPE / c.Best().WAPE }

// RMSERatio returns our RMSE divided by the smallest of the other methods.
func (c Comparison) RMSERatio() float64 {
	least := math.Inf(1)
	for _, o := range c.Others {
		least = min(least, o.RMSE)
	}
	return c.Own.RMSE / least
}

// A Summary sums up a list of comparisons.
type Summary struct {
	Rows, Better, Above int     // rows; those with a ratio below 1; those with one above the bound
	Mean                float64 // ratio to the best other method, which differs from row to row
	BetterThan          int     // rows better than the named method
}

// Summarise sums up a list. bound is the largest acceptable ratio.
func Summarise(list []Comparison, bound float64, named string) Summary {
	s := Summary{Rows: len(list)}
	for _, c := range list {
		ratio := c.Ratio()
		s.Mean += ratio / float64(len(list))
		if ratio < 1 {
			s.Better++
		}
		if ratio > bound {
			s.Above++
		}
		if o, ok := c.Other(named); ok && c.Own.WAPE < o.WAPE {
			s.BetterThan++
		}
	}
	return s
}

// errorSums are the sums behind WAPE and RMSE.
type errorSums struct{ abs, sq, truth, n float64 }

func (e *errorSums) add(y, f float64) {
	e.abs += math.Abs(y - f)
	e.sq += (y - f) * (y - f)
	e.truth += y
	e.n++
}

func (e *errorSums) column(name string) Column {
	return Column{name, e.abs / e.truth, math.Sqrt(e.sq / e.n)}
}

// intervalColumns are the columns of reference forecasts that are bounds of an interval.
var intervalColumns = [...]string{"prophet_lo95", "prophet_hi95"}

// Compare compares a run with reference forecasts at their origins. Negative forecasts
// count as 0. It fails if the reference has origins or horizons that the run has not.
func (r *Run) Compare(ref *Reference) ([]Comparison, error) {
	for _, row := range ref.Rows {
		if row.Index < 0 || row.Index >= len(r.Trace.Rates) {
			return nil, fmt.Errorf("compare %s with reference forecasts: index %d, the trace has %d slots", r.Trace.Name,
				row.Index, len(r.Trace.Rates))
		}
	}
	var list []Comparison
	for h, seconds := range ref.Horizons {
		ahead := time.Duration(seconds) * time.Second
		own, err := r.horizon(ahead)
		if err != nil {
			return nil, fmt.Errorf("compare %s with reference forecasts: %w", r.Trace.Name, err)
		}
		c := Comparison{Trace: r.Trace.Name, Horizon: ahead, N: len(ref.Rows), Others: ref.columns(h)}
		var sums errorSums
		for _, row := range ref.Rows {
			sums.add(row.Truth[h], r.Forecasts[own][row.Index].Q50)
		}
		c.Own = sums.column("weir")
		list = append(list, c)
	}
	return list, nil
}

// columns returns the errors of the reference forecasts of horizon h, by name.
func (ref *Reference) columns(h int) (list []Column) {
	sums := make(map[string]*errorSums)
	for _, row := range ref.Rows {
		for name, f := range row.Forecast {
			if sums[name] == nil {
				sums[name] = &errorSums{}
			}
			sums[name].add(row.Truth[h], max(0, f[h]))
		}
	}
	for name, s := range sums {
		if !slices.Contains(intervalColumns[:], name) {
			list = append(list, s.column(name))
		}
	}
	slices.SortFunc(list, func(a, b Column) int { return cmp.Compare(a.Name, b.Name) })
	return list
}

func (r *Run) horizon(ahead time.Duration) (int, error) {
	if h := slices.Index(r.Horizons, ahead); h >= 0 {
		return h, nil
	}
	return 0, fmt.Errorf("horizon %s is not in the run, which has %v", ahead, r.Horizons)
}

// Levels compares a run with the simple methods for all targets in a span. Slots that were
// not recorded count with the last value before them.
func (r *Run) Levels(span Span, ahead time.Duration) (Comparison, error) {
	h, err := r.horizon(ahead)
	if err != nil {
		return Comparison{}, fmt.Errorf("levels of %s: %w", r.Trace.Name, err)
	}
	k := r.slots(h)
	held := hold(r.Trace.Rates)
	medians := make([]float64, len(held))
	for i, s := range r.Forecasts[h] {
		medians[i] = s.Q50
	}
	own, n := sumErrors(held, medians, span, k)
	c := Comparison{Trace: r.Trace.Name, Horizon: ahead, N: n, Own: own.column("weir")}
	for _, b := range Baselines() {
		sums, _ := sumErrors(held, b.Forecast(held, r.Trace.Step, k), span, k)
		c.Others = append(c.Others, sums.column(b.Name))
	}
	return c, nil
}

// sumErrors sums the errors of forecasts f[i] of slot i+k over the targets in a span.
func sumErrors(truth, f []float64, span Span, k int) (sums errorSums, n int) {
	for j := max(span.From, k); j < min(span.To, len(truth)); j++ {
		if y, p := truth[j], f[j-k]; y == y && p == p {
			sums.add(y, p)
			n++
		}
	}
	return sums, n
}
