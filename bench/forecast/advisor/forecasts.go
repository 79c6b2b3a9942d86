package advisor

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"weir/advisor/forecast"
	"weir/bench/forecast/backtest"
	"weir/bench/lab/result"
	"weir/bench/lab/rig"
)

const (
	referenceDir = "../shared/reference/forecast-baselines"
	levelBound   = 1.05          // ratio to the best other error, above which a row is counted as worse
	warmUp       = 6 * time.Hour // of a trace, before forecasts are scored
	prophetName  = "prophet"     // in the reference forecasts
)

// A replayed has the forecasts for a trace and their scores.
type replayed struct {
	run    *backtest.Run
	levels []backtest.Comparison       // with simple methods, over all slots
	others []backtest.Comparison       // with Prophet and statistical libraries, at some origins
	cold   [][]backtest.ColdStartScore // by horizon
	spikes []backtest.Spikes
}

// forecasts replays the recorded traces and prints the scores of the forecaster.
func forecasts(ctx context.Context, out *result.Report, progress io.Writer) {
	sets := backtest.Datasets()
	list := make([]*replayed, len(sets))
	each(ctx, len(sets), func(i int) {
		fmt.Fprintf(progress, "\rforecasts: %-30s", sets[i].Name)
		list[i] = replay(sets[i])
	})
	fmt.Fprintf(progress, "\r%-50s\n", "forecasts done")
	printForecasts(out, list)
}

// replay returns nil if there is no such file.
func replay(d backtest.Dataset) *replayed {
	text := rig.ReadOptional(filepath.Join(traceDir, d.File))
	if text == nil {
		return nil
	}
	t := rig.Must(backtest.ParseCounts(d.Name, d.Step, text))
	r := &replayed{run: rig.Must(backtest.Replay(t, backtest.Advisor(forecast.Settings{}), d.Horizons...))}
	span := t.After(warmUp)
	for _, h := range d.Levels {
		r.levels = append(r.levels, rig.Must(r.run.Levels(d.LevelSpan(t), h)))
	}
	for h := range d.Horizons {
		r.cold = append(r.cold, r.run.ColdStart(h))
		r.spikes = append(r.spikes, r.run.Spikes(h, span))
	}
	if text := rig.ReadOptional(filepath.Join(referenceDir, d.Name+".json")); text != nil {
		r.others = rig.Must(r.run.Compare(rig.Must(backtest.ParseReference(text))))
	}
	return r
}

func printForecasts(out *result.Report, list []*replayed) {
	list = slices.DeleteFunc(list, func(r *replayed) bool { return r == nil })
	if len(list) == 0 {
		return
	}
	var levels, others []backtest.Comparison
	for _, r := range list {
		levels, others = append(levels, r.levels...), append(others, r.others...)
	}
	printTable(out, "Forecasts: scores after six hours of history", scores(list))
	summary := func(list []backtest.Comparison) backtest.Summary {
		s := backtest.Summarise(list, levelBound, prophetName)
		out.Note("%d of %d rows are better than the best other, which differs from row to row, %d more than 5 %% worse; "+
			"mean ratio %.3f.", s.Better, s.Rows, s.Above, s.Mean)
		return s
	}
	if len(levels) > 0 {
		printTable(out, "Forecasts: error (WAPE) beside simple methods, all slots", comparisons(levels))
		summary(levels)
	}
	if len(others) > 0 {
		printTable(out, "Forecasts: error (WAPE) beside Prophet and statistical libraries, at their origins",
			comparisons(others, prophetName))
		out.Note("Better than Prophet on %d rows.", summary(others).BetterThan)
	}
	printCold(out, list)
	printSpikes(out, list)
}

// scores returns the scores of each horizon.
func scores(list []*replayed) *result.Table {
	t := result.NewTable("series | horizon | N | WAPE | RMSE | MASE | in q05–q95 | ≤ q80 | ≤ q95 | ≤ q99 | pinball .95 " +
		"| width | interval score")
	for _, r := range list {
		for h, d := range r.run.Horizons {
			s := r.run.Score(h, r.run.Trace.After(warmUp))
			t.Add("%s | %v | %d | %.4f | %.4g | %.3f | %.3f | %.3f | %.3f | %.3f | %.4f | %.3f | %.3f", r.run.Trace.Name, d,
				s.N, s.WAPE, s.RMSE, s.MASE,
				s.Within, s.Below[2], s.Below[3], s.Below[4], s.Pinball[3], s.Width, s.Interval)
		}
	}
	return t
}

// comparisons returns our errors, those of the best other method with its name, their ratios, and
// the errors of the named methods.
func comparisons(list []backtest.Comparison, named ...string) *result.Table {
	t := result.NewTable("series | horizon | weir | best | its name | ratio | RMSE ratio")
	t.Columns = append(t.Columns, named...)
	for _, c := range list {
		best := c.Best()
		t.Add("%s | %v | %.4f | %.4f | %s | %.3f | %.3f", c.Trace, c.Horizon, c.Own.WAPE, best.WAPE, best.Name, c.Ratio(),
			c.RMSERatio())
		row := &t.Rows[len(t.Rows)-1]
		for _, name := range named {
			cell := "-"
			if o, ok := c.Other(name); ok {
				cell = fmt.Sprintf("%.4f", o.WAPE)
			}
			*row = append(*row, cell)
		}
	}
	return t
}

// printSpikes prints how well alarms predict sudden rises.
func printSpikes(out *result.Report, list []*replayed) {
	t := result.NewTable(
		"series | horizon | rises | announced | lead, median | alarms | of these right % | in alarm % of the time")
	for _, r := range list {
		for h, s := range r.spikes {
			lead, right := "–", "–"
			if s.Announced > 0 {
				lead = s.Lead.String()
			}
			if s.Alarms > 0 {
				right = fmt.Sprintf("%.0f", 100*float64(s.Right)/float64(s.Alarms))
			}
			t.Add("%s | %v | %d | %d | %s | %d | %s | %.0f", r.run.Trace.Name, r.run.Horizons[h], s.Rises, s.Announced, lead,
				s.Alarms, right, 100*s.InAlarm)
		}
	}
	printTable(out, "Sudden rises: alarms of the 95 % quantile", t)
	out.Note("A rise is announced when an alarm is raised before it, within the horizon and three minutes more. A " +
		"forecast that is always in alarm raises no alarms.")
}

// coldAges are the ends of the stages that have a column.
var coldAges = []time.Duration{5 * time.Minute, 30 * time.Minute, 6 * time.Hour, 48 * time.Hour, 192 * time.Hour}

// printCold prints the errors by the amount of history.
func printCold(out *result.Report, list []*replayed) {
	t := result.NewTable("series | horizon | to 5 min | 30 min | 6 h | 2 d | 8 d | more")
	for _, r := range list {
		for h, stages := range r.cold {
			t.Add("%s | %v | %s", r.run.Trace.Name, r.run.Horizons[h], strings.Join(coldCells(stages), " | "))
		}
	}
	printTable(out,
		"Forecasts by age of the history: error relative to that of the last value (share inside of q05 to q95)", t)
}

// coldCells returns a cell for each of coldAges, and one for longer histories.
func coldCells(stages []backtest.ColdStartScore) []string {
	cells := slices.Repeat([]string{"–"}, len(coldAges)+1)
	for _, s := range stages {
		at := slices.Index(coldAges, s.To)
		if at < 0 {
			at = len(coldAges)
		}
		cells[at] = fmt.Sprintf("%.2f (%.2f)", s.Score.MASE, s.Score.Within)
	}
	return cells
}

func printTable(out *result.Report, title string, t *result.Table) {
	out.Heading("%s", title)
	out.Table(t)
}
