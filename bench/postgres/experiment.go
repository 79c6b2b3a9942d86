package postgres

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"weir/bench/report"
	"weir/bench/result"
	"weir/bench/rig"
	"weir/internal/chart"
	"weir/internal/service"
)

const (
	weirSide      = "weir"
	compressUsual = 10
	skewed        = 500 * time.Millisecond // uncompressed
)

// An Order is what is wanted of the experiment.
type Order struct {
	Dir string // of the page
}

// Parts of the experiment.
var parts = []string{"load", "deadlock", "goals"}

// Run runs the parts that args name, all without a name; a number among them is how many
// times as fast the load is played, 10 without one. The error says what was not as it
// should be.
func (o *Order) Run(ctx context.Context, args []string, out io.Writer) error {
	compress, chosen := float64(compressUsual), []string(nil)
	for _, arg := range args {
		n, err := strconv.ParseFloat(arg, 64)
		switch {
		case err == nil && n >= 1 && n <= 60:
			compress = n
		case slices.Contains(parts, arg):
			chosen = append(chosen, arg)
		default:
			return &service.ExitError{Status: 2, Err: fmt.Errorf("postgres wants load, deadlock or goals, and how many times as fast (1 to 60), not %q", arg)}
		}
	}
	wanted := func(part string) bool { return chosen == nil || slices.Contains(chosen, part) }
	e, page := new(report.Expectations), report.Page{Title: "Weir: limits in PostgreSQL, measured", About: about}
	var doubt error
	if wanted("load") {
		c, err := compare(ctx, out, e, compress)
		if err != nil {
			return err
		}
		page.Chapters, doubt = append(page.Chapters, c.chapter), c.doubt
	}
	if wanted("deadlock") {
		if err := deadlocks(ctx, out, e); err != nil {
			return err
		}
	}
	if wanted("goals") {
		if err := goals(ctx, out, e); err != nil {
			return err
		}
	}
	if page.Chapters != nil {
		page.Lead = result.NewRecorder(time.Now(), io.Discard, "postgres", args).Record(time.Now(), nil).Lead()
		if err := page.Write(filepath.Join(o.Dir, "postgres.html")); err != nil {
			return err
		}
	}
	fmt.Fprintf(out, "\n%s", e.Table())
	return e.Conclude(out, "Weir admits what the limit says, whatever the clocks of instances, without a deadlock.", doubt)
}

var about = []string{
	"One user may send one request in 2 s, to two instances together. Each instance is offered 5 requests per second for 3 minutes, 5 rising to 50 for 3 minutes, and 100 for 4 minutes: of 59,700 requests at most 300 may be admitted.",
	"nowait, upsert and range are services with 12 connections each that keep the limit in a table, by their own clocks; weir is two proxies with a rule. Each way has a PostgreSQL of its own with default settings, and they run one after another. Where a clock is off, that of the second instance is ahead; Weir's is then a build with another package time.",
}

// A comparison is the first part: the chapter of the page, and why its figures may prove
// nothing.
type comparison struct {
	chapter report.Chapter
	doubt   error
}

// compare plays the load against every way, and against all but range with one clock off.
func compare(ctx context.Context, out io.Writer, e *report.Expectations, compress float64) (c comparison, err error) {
	fmt.Fprintf(out, "Two instances, one user, one request in %v; 5/s, 5 to 50/s, 100/s to each: %d requests in ten minutes, played %g times as fast. At most %d may be admitted.\n\n",
		period, instances*29_850, compress, boundMost)
	t := report.NewTable("way | clock off | admitted | refused | failed | deadlocks | admitted p50 ms | p99 ms | max ms | refused p99 ms | PostgreSQL's CPU µs per answer | dead rows | table KB | generator")
	even := contest{period: scaled(period, compress)}
	off := contest{period: even.period, skew: scaled(skewed, compress)}
	fmt.Fprintf(out, "  ▶ a proxy with another clock is built\n")
	type run struct {
		*contest
		way string
	}
	runs := []run{{&even, "nowait"}, {&even, "upsert"}, {&even, "range"}, {&even, weirSide}, {&off, "nowait"}, {&off, "upsert"}}
	remove, err := rig.BuildSkewedProxy(ctx)
	if err == nil {
		defer remove()
		runs = append(runs, run{&off, weirSide})
	}
	e.Never(err != nil, "weir with one clock off was not played: %v", err)
	for _, one := range runs {
		fmt.Fprintf(out, "  ▶ %s\n", one.way)
		o, err := one.play(ctx, one.way, compress)
		if err != nil {
			return c, fmt.Errorf("%s: %w", one.way, err)
		}
		o.add(t, one.skew)
		if one.skew > 0 && one.way != weirSide {
			continue // for comparison
		}
		if one.skew > 0 {
			o.name = "weir with one clock off"
		}
		o.expect(e)
		if c.doubt == nil {
			c.doubt = rig.Inconclusive(o.loads...)
		}
		if one.skew > 0 {
			continue // the picture is that of weir
		}
		f, err := o.figure()
		if err != nil {
			return c, err
		}
		c.chapter.Figures = append(c.chapter.Figures, f)
	}
	fmt.Fprintf(out, "\n%s", t)
	c.chapter.Name, c.chapter.Tables, c.chapter.Bold = "The load of the application", []report.Table{*t}, weirSide
	return c, nil
}

func scaled(d time.Duration, compress float64) time.Duration {
	return time.Duration(float64(d) / compress)
}

// add adds the row of an outcome: latencies are the worse of the instances'.
func (o *outcome) add(t *report.Table, skew time.Duration) {
	var p50, p99, most, refused float64
	verdict := ""
	for _, l := range o.loads {
		p50, p99, most = max(p50, l.LatencySuccess.P50), max(p99, l.LatencySuccess.P99), max(most, l.LatencySuccess.Max, l.LatencyLimited.Max)
		refused = max(refused, l.LatencyLimited.P99)
		verdict = rig.Worse(l.Verdict, verdict)
	}
	t.Add("%s | %v | %d | %d | %d | %d | %.2f | %.2f | %.0f | %.2f | %.1f | %d | %d | %s", o.name, skew, o.admitted, o.refused, o.failed, o.after.deadlocks-o.before.deadlocks,
		1e3*p50, 1e3*p99, 1e3*most, 1e3*refused, o.perDecision(), o.after.dead, o.after.bytes>>10, verdict)
}

// expect says what must hold: of range nothing, as its deadlocks are what is to be seen.
func (o *outcome) expect(e *report.Expectations) {
	if o.name == "range" {
		return
	}
	e.AtMost(o.name+": admitted", float64(o.admitted), float64(boundMost))
	e.AtLeast(o.name+": admitted", float64(o.admitted), float64(boundLeast))
	e.Never(o.after.deadlocks > o.before.deadlocks, "%s: %d deadlocks", o.name, o.after.deadlocks-o.before.deadlocks)
	e.Never(o.failed > 0, "%s: %d requests failed", o.name, o.failed)
}

// figure draws what was admitted and the p99 of latency, second by second.
func (o *outcome) figure() (f report.Figure, err error) {
	var at, admitted, p99 []float64
	for i, row := range o.loads[0].Series.Rows {
		at, admitted, p99 = append(at, row.T), append(admitted, float64(row.Success)), append(p99, max(1e-5, row.LatencyP99))
		if other := o.loads[1].Series.Rows; i < len(other) {
			admitted[i] += float64(other[i].Success)
			p99[i] = max(p99[i], other[i].LatencyP99)
		}
	}
	f = report.Figure{ID: "postgres-" + o.name, Label: o.name}
	for _, c := range []chart.Chart{
		{Title: o.name + ": admitted per second by both instances", X: chart.Axis{Unit: chart.Elapsed}, Y: chart.Axis{Min: 0}, Lines: []chart.Series{{X: at, Y: admitted}}},
		{Title: o.name + ": p99 of latency", X: chart.Axis{Unit: chart.Elapsed}, Y: chart.Axis{Unit: chart.Seconds, Scale: chart.Log}, Lines: []chart.Series{{X: at, Y: p99}}},
	} {
		if err := f.Draw(c, ""); err != nil {
			return f, err
		}
	}
	return f, nil
}
