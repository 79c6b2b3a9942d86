// Package postgres compares Weir's limits in PostgreSQL with three common ways to keep one
// in a table: what they admit, what they cost the database, and where they stall. A
// [LimiterServer] is a program of the experiment that limits in one of these ways.
package postgres

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"weir/bench/lab/result"
	"weir/bench/lab/rig"
	"weir/internal/data/chart"
	"weir/loadgen/record"
)

const (
	weirSide      = "weir"
	compressUsual = 10
	skewed        = 500 * time.Millisecond // uncompressed
)

// A lab is one run of the experiment.
//
// Owned by one goroutine.
type lab struct {
	*rig.Lab
	page     string  // file name
	compress float64 // factor by which the load is faster
}

// Run runs the parts named by args, or all. A number among args is the factor by which the load
// is played faster, 10 by default. A page is written to dir.
func Run(of *rig.Lab, dir string, args []string) {
	l := &lab{Lab: of, page: filepath.Join(dir, "postgres.html"), compress: compressUsual}
	names := slices.Clone(args)
	for i, arg := range names {
		if n, err := strconv.ParseFloat(arg, 64); err == nil && n >= 1 && n <= 60 {
			l.compress, names = n, slices.Delete(names, i, i+1)
			break
		}
	}
	l.RunExperiment(rig.Experiment{Name: "postgres, besides a factor from 1 to 60,",
		Good: "Weir admits what the limit allows, independent of the clocks of instances, and without deadlocks.",
		Parts: []rig.Part{{Name: "load", Run: l.compare}, {Name: "deadlock", Run: l.deadlocks},
			{Name: "goals", Run: l.goals}}}, names)
}

// turn plays with one side, which ends with it.
func (l *lab) turn(name string, play func()) {
	fmt.Fprintf(l, "  ▶ %s\n", name)
	rig.Section(name, play)
	l.End()
}

var about = []string{
	"One user may send one request per 2 s to two instances together. Each instance is offered 5 requests per second " +
		"for 3 minutes, 5 rising to 50 for 3 minutes, and 100 for 4 minutes: of 59,700 requests at most 300 may be admitted.",
	"nowait, upsert and range are services with 12 connections per instance that keep the limit in a table and use " +
		"their own clocks; weir is two proxies with a rule. Each way has its own PostgreSQL with default settings, and " +
		"they run one after another. Where a clock is off, that of the second instance is ahead; for Weir this takes a " +
		"build with a changed package time.",
}

// compare plays the load against every way, with one clock off against all but range, and
// writes the page.
func (l *lab) compare() {
	compress := l.compress
	l.Note("Two instances, one user, one request in %v; 5/s, 5 to 50/s, 100/s to each: %d requests in ten minutes, "+
		"played %g times as fast. At most %d may be admitted.",
		period, instances*29_850, compress, boundMost)
	t := result.NewTable("way | clock off | admitted | refused | failed | deadlocks | admitted p50 ms | p99 ms | max " +
		"ms | refused p99 ms | PostgreSQL's CPU µs per answer | dead rows | table KB | generator")
	even := contest{period: scaled(period, compress)}
	off := contest{period: even.period, skew: scaled(skewed, compress)}
	fmt.Fprintf(l, "  ▶ building a proxy with another clock\n")
	type run struct {
		*contest
		way string
	}
	runs := []run{{&even, "nowait"}, {&even, "upsert"}, {&even, "range"}, {&even, weirSide}, {&off, "nowait"},
		{&off, "upsert"}}
	remove, err := rig.BuildProxyWithSkewedClock(l.Ctx)
	if err == nil {
		defer remove()
		runs = append(runs, run{&off, weirSide})
	}
	l.Never(err != nil, "weir with one clock off could not be played: %v", err)
	chapter := result.Chapter{Name: "The load of the application", Bold: weirSide}
	for _, one := range runs {
		var o *outcome
		l.turn(one.way, func() { o = one.play(l.Lab, one.way, compress) })
		o.add(t, one.skew)
		if one.skew > 0 && one.way != weirSide {
			continue // played for comparison only
		}
		if one.skew > 0 {
			o.name = "weir with one clock off"
		}
		o.expect(l.Lab)
		if one.skew > 0 {
			continue // its plots would equal those of weir
		}
		chapter.Figures = append(chapter.Figures, o.figure())
	}
	l.Table(t)
	chapter.Tables = []result.Table{*t}
	rig.Check((&result.Page{Title: "Weir: limits in PostgreSQL, measured", About: about,
		Lead: l.Record(time.Now(), nil).Lead(), Chapters: []result.Chapter{chapter}}).Write(l.page))
}

func scaled(d time.Duration, compress float64) time.Duration {
	return time.Duration(float64(d) / compress)
}

// add adds the row of an outcome. Latencies are those of the worse instance.
func (o *outcome) add(t *result.Table, skew time.Duration) {
	var p50, p99, most, refused float64
	var validity record.Validity
	for _, l := range o.loads {
		p50, p99, most = max(p50, l.LatencySuccess.P50), max(p99, l.LatencySuccess.P99),
			max(most, l.LatencySuccess.Max, l.LatencyRateLimited.Max)
		refused = max(refused, l.LatencyRateLimited.P99)
		validity = record.Worse(l.Verdict, validity)
	}
	t.Add("%s | %v | %d | %d | %d | %d | %.2f | %.2f | %.0f | %.2f | %.1f | %d | %d | %s", o.name, skew, o.admitted,
		o.refused, o.failed, o.after.deadlocks-o.before.deadlocks,
		1e3*p50, 1e3*p99, 1e3*most, 1e3*refused, o.perDecision(), o.after.dead, o.after.bytes>>10, validity)
}

// expect adds the expectations, and the loads that must have been as planned for them. There are
// none about range, which is played to show its deadlocks.
func (o *outcome) expect(l *rig.Lab) {
	if o.name == "range" {
		return
	}
	l.Loads = append(l.Loads, o.loads...)
	l.AtMost(o.name+": admitted", float64(o.admitted), float64(boundMost))
	l.AtLeast(o.name+": admitted", float64(o.admitted), float64(boundLeast))
	l.Never(o.after.deadlocks > o.before.deadlocks, "%s: %d deadlocks", o.name, o.after.deadlocks-o.before.deadlocks)
	l.Never(o.failed > 0, "%s: %d requests failed", o.name, o.failed)
}

// figure draws what was admitted and the p99 of latency, second by second.
func (o *outcome) figure() result.Figure {
	var at, admitted, p99 []float64
	for i, row := range o.loads[0].Series.Rows {
		at, admitted, p99 = append(at, row.T), append(admitted, float64(row.Success)), append(p99, max(1e-5, row.LatencyP99))
		if other := o.loads[1].Series.Rows; i < len(other) {
			admitted[i] += float64(other[i].Success)
			p99[i] = max(p99[i], other[i].LatencyP99)
		}
	}
	f := result.Figure{ID: "postgres-" + o.name, Label: o.name}
	for _, c := range []chart.Chart{
		{Title: o.name + ": admitted per second by both instances", X: chart.Axis{Unit: chart.Elapsed},
			Y: chart.Axis{Min: 0}, Lines: []chart.Series{{X: at, Y: admitted}}},
		{Title: o.name + ": p99 of latency", X: chart.Axis{Unit: chart.Elapsed},
			Y: chart.Axis{Unit: chart.Seconds, Scale: chart.Log}, Lines: []chart.Series{{X: at, Y: p99}}},
	} {
		rig.Check(f.Draw(c, ""))
	}
	return f
}
