// Package pacing records at the receiving side when requests arrive, and compares that
// with when they were due: for our load generator, alone and as one of several, and for
// peers at the same time on the same machine.
package pacing

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"weir/bench/report"
	"weir/bench/rig"
	"weir/loadgen/record"
)

const (
	rounds = 3 // runs of each generator at each rate, in turns
	span   = 6 * time.Second
	// quiet is the pause between runs, so that one does not affect the next.
	quiet = 300 * time.Millisecond

	probes     = 3000 // requests that measure the recorder itself
	probeEvery = time.Millisecond
)

func rates() []int { return []int{1000, 10_000} }

// A run is one run of a generator, as seen by the receiver.
type run struct {
	name string
	own
	judgement
}

// lab is one run of the experiment.
type lab struct {
	ctx      context.Context
	out      io.Writer
	recorder *recorder
}

// Run measures the generators and prints Markdown.
func Run(ctx context.Context, out io.Writer) error {
	recorder, err := startRecorder()
	if err != nil {
		return err
	}
	defer recorder.sockets.Stop()
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

// calibrate measures and prints the precision of the recorder.
func (l *lab) calibrate() error {
	load := loadAverage() // of other programs
	after, err := l.recorder.precision(probes, probeEvery)
	if err != nil {
		return fmt.Errorf("measure the recorder: %w", err)
	}
	s := spreadOf(after)
	fmt.Fprintf(l.out, "### Pacing, seen at the receiving side\n\n")
	fmt.Fprintf(l.out, "Arrival times are taken by the kernel (SO_TIMESTAMPNS). With %d requests of the recorder itself they were p50 %.0f µs, p99 %.0f µs "+
		"and at most %.0f µs after the start of write(2), which the recorder and the kernel add to the figures below. "+
		"Load average of the machine at the start: %s.\n\n", probes, micros(s.P50), micros(s.P99), micros(s.Max), load)
	return nil
}

// loadAverage returns the machine's load average over one, five and fifteen minutes.
func loadAverage() string {
	text, _ := os.ReadFile("/proc/loadavg")
	if fields := strings.Fields(string(text)); len(fields) > 3 {
		return strings.Join(fields[:3], ", ")
	}
	return "unknown"
}

// pace runs the generators in turn at a rate.
func (l *lab) pace(all []generator, rate int) error {
	runs, err := rig.Turns(rounds, len(all), func(i int) (run, error) {
		r, err := l.once(all[i], rate)
		if err != nil {
			return r, fmt.Errorf("%s at %d/s: %w", all[i].name, rate, err)
		}
		fmt.Fprintf(l.out, "  %d/s %s: %d arrived, gap error p99 %.0f µs, late p99 %.0f µs\n", rate, r.name, r.Requests, micros(r.Gap.P99), micros(r.Late.P99))
		return r, nil
	})
	if err == nil {
		l.table(rate, runs)
	}
	return err
}

// installed returns the installed generators and prints the names of the others.
func (l *lab) installed() (there []generator) {
	var missing []string
	for _, g := range generators() {
		if g.tool != "" && rig.Installed(g.tool) != nil {
			missing = append(missing, g.name)
			continue
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
	var err error
	if r.own, err = g.run(l.ctx, l.recorder.addr, rate, span); err != nil {
		return r, err
	}
	stamps, unstamped := l.recorder.take()
	if unstamped > 0 {
		return r, fmt.Errorf("the kernel gave no arrival time for %d requests", unstamped)
	}
	if len(stamps) == 0 {
		return r, fmt.Errorf("no request arrived")
	}
	start, known := r.start.UnixNano(), !r.start.IsZero()
	if !known {
		start = stamps[0]
		r.due = even(int(span.Seconds()*float64(rate)), rate)
	}
	arrivals := make([]time.Duration, len(stamps))
	for i, s := range stamps {
		arrivals[i] = time.Duration(s - start)
	}
	r.judgement = judge(arrivals, r.due, known)
	return r, nil
}

func micros(seconds float64) float64 { return 1e6 * seconds }

// table prints the runs at a rate: medians, and maxima over all runs.
func (l *lab) table(rate int, runs [][]run) {
	table := report.NewTable("| requests | missing | rate error | gap error p50 µs | p99 | max | late p50 µs | p99 | max | own lag p50 µs | p99 | max | verdict")
	for _, rs := range runs {
		mid := func(of func(r run) float64) string { return fmt.Sprintf("%.0f", report.MedianOf(rs, of)) }
		top := func(of func(r run) float64) string { return fmt.Sprintf("%.0f", report.SpreadOf(rs, of).Most) }
		times := func(of func(r run) *record.Spread) []string {
			return []string{mid(func(r run) float64 { return micros(of(r).P50) }), mid(func(r run) float64 { return micros(of(r).P99) }), top(func(r run) float64 { return micros(of(r).Max) })}
		}
		own := []string{"", "", "", ""}
		if rs[0].lag != nil {
			own = append(times(func(r run) *record.Spread { return r.lag }), rig.Verdicts(rs, func(r run) record.Verdict { return r.says }))
		}
		table.Rows = append(table.Rows, slices.Concat(
			[]string{rs[0].name, mid(func(r run) float64 { return float64(r.Requests) }), top(func(r run) float64 { return float64(r.Missing) }),
				fmt.Sprintf("%+.4f %%", 100*report.MedianOf(rs, func(r run) float64 { return r.RateError }))},
			times(func(r run) *record.Spread { return &r.Gap }), times(func(r run) *record.Spread { return &r.Late }), own))
	}
	fmt.Fprintf(l.out, "\n### %d requests/s, %d runs of %v each in turns, the first second left out\n\n%v\n", rate, rounds, span, table)
}
