package backtest

import "fmt"

// A Table is text in rows and columns.
type Table struct {
	Head []string
	Rows [][]string
}

// Comparisons returns the table of comparisons: our error, that of the best other method
// with its name, the ratio of the two, and the error of one named method.
func Comparisons(list []Comparison, named string) Table {
	t := Table{Head: []string{"series", "horizon", "weir", "best", "its name", "ratio", "RMSE ratio", named}}
	for _, c := range list {
		best, row := c.Best(), []string{c.Trace, c.Horizon.String(), fmt.Sprintf("%.4f", c.Own.WAPE)}
		least := best.RMSE
		for _, o := range c.Others {
			least = min(least, o.RMSE)
		}
		row = append(row, fmt.Sprintf("%.4f", best.WAPE), best.Name, fmt.Sprintf("%.3f", c.Ratio()), fmt.Sprintf("%.3f", c.Own.RMSE/least))
		if o, ok := c.Other(named); ok {
			row = append(row, fmt.Sprintf("%.4f", o.WAPE))
		} else {
			row = append(row, "-")
		}
		t.Rows = append(t.Rows, row)
	}
	return t
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

// Scores returns the table of a run over the origins in a span, one row per horizon.
func (r *Run) Scores(span Span) Table {
	t := Table{Head: []string{"series", "horizon", "N", "WAPE", "RMSE", "MASE", "in q05–q95", "≤ q80", "≤ q95", "≤ q99", "pinball .95", "width", "interval score"}}
	for h, d := range r.Horizons {
		s := r.Score(h, span)
		t.Rows = append(t.Rows, []string{
			r.Trace.Name, d.String(), fmt.Sprint(s.N), fmt.Sprintf("%.4f", s.WAPE), fmt.Sprintf("%.4g", s.RMSE), fmt.Sprintf("%.3f", s.MASE),
			fmt.Sprintf("%.3f", s.Within), fmt.Sprintf("%.3f", s.Below[2]), fmt.Sprintf("%.3f", s.Below[3]), fmt.Sprintf("%.3f", s.Below[4]),
			fmt.Sprintf("%.4f", s.Pinball[3]), fmt.Sprintf("%.3f", s.Width), fmt.Sprintf("%.3f", s.Interval),
		})
	}
	return t
}
