// Package pacing records at the receiving side when requests arrive, and compares that
// with when they were due: for our load generator, alone and as one of several, and for
// peers at the same time on the same machine.
package pacing

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"weir/bench/report"
	"weir/bench/rig"
	"weir/loadgen/record"
)

const (
	rounds = 3 // runs of each generator at each rate, in turns
	span   = 6 * time.Second
	// quiet is between two runs: what one leaves behind is not the next one's.
	quiet = 300 * time.Millisecond

	probes     = 3000 // requests by which the recorder itself is measured
	probeEvery = time.Millisecond
)

func rates() []int { return []int{1000, 10_000} }

// A run is one run of a generator as it was seen.
type run struct {
	name    string
	lag     *spread // by its own account
	verdict record.Verdict
	judgement
}

// lab is one run of the experiment.
type lab struct {
	ctx      context.Context
	out      io.Writer
	recorder *recorder
}

// Run records, and prints Markdown.
func Run(ctx context.Context, out io.Writer) error {
	recorder, err := startRecorder()
	if err != nil {
		return err
	}
	defer recorder.stop()
	l := &lab{ctx: ctx, out: out, recorder: recorder}
	if err := l.calibrate(); err != nil {
		return err
	}
	all := l.installed()
	for _, rate := range rates() {
		if err := l.pace(all, rate); err != nil {
			return err
		}
	}
	return nil
}

// calibrate says how precise the recorder is.
func (l *lab) calibrate() error {
	load := loadAverage() // of what else the machine does
	after, err := l.recorder.precision(probes, probeEvery)
	if err != nil {
		return fmt.Errorf("measure the recorder: %w", err)
	}
	s := spreadOf(after)
	fmt.Fprintf(l.out, "### Pacing, seen at the receiving side\n\n")
	fmt.Fprintf(l.out, "A time of arrival is the kernel's (SO_TIMESTAMPNS): with %d requests of the recorder's own it was p50 %.0f µs, p99 %.0f µs, "+
		"at most %.0f µs after the beginning of write(2). That is what the recorder and the way through the kernel add to the figures below. "+
		"Load average of the machine at the beginning: %s.\n\n", probes, s.P50, s.P99, s.Max, load)
	return nil
}

// loadAverage is the machine's over the last one, five and fifteen minutes.
func loadAverage() string {
	text, _ := os.ReadFile("/proc/loadavg")
	if fields := strings.Fields(string(text)); len(fields) > 3 {
		return strings.Join(fields[:3], ", ")
	}
	return "unknown"
}

// pace lets the generators take turns at a rate.
func (l *lab) pace(all []generator, rate int) error {
	runs, err := rig.Turns(rounds, len(all), func(i int) (run, error) {
		r, err := l.once(all[i], rate)
		if err != nil {
			return r, fmt.Errorf("%s at %d/s: %w", all[i].name, rate, err)
		}
		fmt.Fprintf(l.out, "  %d/s %s: %d arrived, gap error p99 %.0f µs, late p99 %.0f µs\n", rate, r.name, r.Requests, r.Gap.P99, r.Late.P99)
		return r, nil
	})
	if err == nil {
		l.table(rate, runs)
	}
	return err
}

// installed are the generators that can be run; it prints the names of the others.
func (l *lab) installed() (there []generator) {
	var missing []string
	for _, g := range generators() {
		if g.tool != "" {
			if _, err := exec.LookPath(g.tool); err != nil {
				missing = append(missing, g.name)
				continue
			}
		}
		there = append(there, g)
	}
	if len(missing) > 0 {
		fmt.Fprintf(l.out, "Not installed, and left out: %s.\n\n", strings.Join(missing, ", "))
	}
	return there
}

// once is one run of a generator.
func (l *lab) once(g generator, rate int) (run, error) {
	r := run{name: g.name}
	if err := rig.Wait(l.ctx, quiet); err != nil {
		return r, err
	}
	l.recorder.take()
	o, err := g.run(l.ctx, l.recorder.addr, rate, span)
	if err != nil {
		return r, err
	}
	stamps, blind := l.recorder.take()
	if blind > 0 {
		return r, fmt.Errorf("the kernel did not tell when %d requests came", blind)
	}
	if len(stamps) == 0 {
		return r, fmt.Errorf("no request came")
	}
	start := o.start.UnixNano()
	if o.start.IsZero() {
		start = stamps[0]
		o.due = even(int(span.Seconds()*float64(rate)), rate)
	}
	arrivals := make([]time.Duration, len(stamps))
	for i, s := range stamps {
		arrivals[i] = time.Duration(s - start)
	}
	r.judgement = judge(arrivals, o.due, !o.start.IsZero())
	r.verdict = o.says
	if o.lag != nil {
		r.lag = &spread{1e6 * o.lag.P50, 1e6 * o.lag.P99, 1e6 * o.lag.Max}
	}
	return r, nil
}

// table prints the runs at a rate: medians, and the greatest of all maxima.
func (l *lab) table(rate int, runs [][]run) {
	table := report.NewTable("| requests | missing | rate error | gap error p50 µs | p99 | max | late p50 µs | p99 | max | own lag p50 µs | p99 | max | verdict")
	for _, rs := range runs {
		mid := func(of func(r run) float64) string { return fmt.Sprintf("%.0f", report.MedianOf(rs, of)) }
		top := func(of func(r run) float64) string { return fmt.Sprintf("%.0f", report.SpreadOf(rs, of).Most) }
		cells := []string{
			rs[0].name, mid(func(r run) float64 { return float64(r.Requests) }), top(func(r run) float64 { return float64(r.Missing) }),
			fmt.Sprintf("%+.4f %%", 100*report.MedianOf(rs, func(r run) float64 { return r.RateError })),
			mid(func(r run) float64 { return r.Gap.P50 }), mid(func(r run) float64 { return r.Gap.P99 }), top(func(r run) float64 { return r.Gap.Max }),
			mid(func(r run) float64 { return r.Late.P50 }), mid(func(r run) float64 { return r.Late.P99 }), top(func(r run) float64 { return r.Late.Max }),
			"", "", "", "",
		}
		if rs[0].lag != nil {
			cells[10], cells[11] = mid(func(r run) float64 { return r.lag.P50 }), mid(func(r run) float64 { return r.lag.P99 })
			cells[12] = top(func(r run) float64 { return r.lag.Max })
			cells[13] = rig.Verdicts(rs, func(r run) record.Verdict { return r.verdict })
		}
		table.Rows = append(table.Rows, cells)
	}
	fmt.Fprintf(l.out, "\n### %d requests/s, %d runs of %v each in turns, the first second left out\n\n%v\n", rate, rounds, span, table)
}
