// Package pacing records at the receiving side when requests arrive, and
// compares that with when they were due: of our load generator, alone and as
// one of several, and of peers in the same minutes on the same machine.
package pacing

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/goccy/go-json"

	"weir/bench/report"
	"weir/bench/result"
	"weir/bench/rig"
	"weir/internal/service"
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
	Generator string  `json:"generator"`
	Rate      int     `json:"rate"`
	Lag       *spread `json:"lagMicros,omitempty"` // by its own account
	Verdict   string  `json:"verdict,omitempty"`
	judgement
}

// findings are what is written to the file.
type findings struct {
	Date     time.Time      `json:"date"`
	Commit   string         `json:"commit"`
	Machine  result.Machine `json:"machine"`
	Span     float64        `json:"spanSeconds"`
	Load     string         `json:"loadAverage"` // at the beginning: of what else the machine does
	Missing  []string       `json:"notInstalled"`
	Recorder spread         `json:"recorderMicros"`
	Runs     []run          `json:"runs"`
	Most     []most         `json:"most"`
}

// lab is one run of the experiment.
type lab struct {
	ctx      context.Context
	out      io.Writer
	recorder *recorder
	found    findings
}

// Run records, prints Markdown, and writes everything as JSON to the file that
// args names, if any.
func Run(ctx context.Context, args []string, out io.Writer) error {
	if len(args) > 1 {
		return &service.ExitError{Status: 2, Err: fmt.Errorf("pacing takes one file for its results as JSON, not %q", args)}
	}
	l := &lab{ctx: ctx, out: out, found: findings{
		Date: time.Now().UTC(), Commit: result.Commit(), Machine: result.ThisMachine(), Span: span.Seconds(), Load: loadAverage(),
	}}
	recorder, err := startRecorder()
	if err != nil {
		return err
	}
	defer recorder.stop()
	l.recorder = recorder
	for _, part := range []func() error{l.calibrate, l.pace, l.most} {
		if err := part(); err != nil {
			return err
		}
	}
	if len(args) == 0 {
		return nil
	}
	text, err := json.MarshalIndent(&l.found, "", " ")
	if err != nil {
		return err
	}
	return report.Create(args[0], append(text, '\n'))
}

// calibrate says how precise the recorder is.
func (l *lab) calibrate() error {
	after, err := l.recorder.precision(probes, probeEvery)
	if err != nil {
		return fmt.Errorf("measure the recorder: %w", err)
	}
	s := spreadOf(after)
	l.found.Recorder = s
	fmt.Fprintf(l.out, "### Pacing, seen at the receiving side\n\n")
	fmt.Fprintf(l.out, "A time of arrival is the kernel's (SO_TIMESTAMPNS): with %d requests of the recorder's own it was p50 %.0f µs, p99 %.0f µs, "+
		"at most %.0f µs after the beginning of write(2). That is what the recorder and the way through the kernel add to the figures below. "+
		"Load average of the machine at the beginning: %s.\n\n", probes, s.P50, s.P99, s.Max, l.found.Load)
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

// pace lets the generators take turns at each rate.
func (l *lab) pace() error {
	all := l.installed()
	for _, rate := range rates() {
		runs := make([][]run, len(all))
		for range rounds {
			for i, g := range all {
				r, err := l.once(g, rate)
				if err != nil {
					return fmt.Errorf("%s at %d/s: %w", g.name, rate, err)
				}
				fmt.Fprintf(l.out, "  %d/s %s: %d arrived, gap error p99 %.0f µs, late p99 %.0f µs\n", rate, g.name, r.Requests, r.Gap.P99, r.Late.P99)
				runs[i] = append(runs[i], r)
				l.found.Runs = append(l.found.Runs, r)
			}
		}
		l.table(rate, runs)
	}
	return nil
}

// installed are the generators that are there; the others are told.
func (l *lab) installed() (there []generator) {
	for _, g := range generators() {
		if g.tool != "" {
			if _, err := exec.LookPath(g.tool); err != nil {
				l.found.Missing = append(l.found.Missing, g.name)
				continue
			}
		}
		there = append(there, g)
	}
	if len(l.found.Missing) > 0 {
		fmt.Fprintf(l.out, "Not installed, and left out: %s.\n\n", strings.Join(l.found.Missing, ", "))
	}
	return there
}

// once is one run of a generator.
func (l *lab) once(g generator, rate int) (run, error) {
	r := run{Generator: g.name, Rate: rate}
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
	r.Verdict = o.says
	if o.lag != nil {
		r.Lag = &spread{1e6 * o.lag.P50, 1e6 * o.lag.P99, 1e6 * o.lag.Max}
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
			rs[0].Generator, mid(func(r run) float64 { return float64(r.Requests) }), top(func(r run) float64 { return float64(r.Missing) }),
			fmt.Sprintf("%+.4f %%", 100*report.MedianOf(rs, func(r run) float64 { return r.RateError })),
			mid(func(r run) float64 { return r.Gap.P50 }), mid(func(r run) float64 { return r.Gap.P99 }), top(func(r run) float64 { return r.Gap.Max }),
			mid(func(r run) float64 { return r.Late.P50 }), mid(func(r run) float64 { return r.Late.P99 }), top(func(r run) float64 { return r.Late.Max }),
			"", "", "", "",
		}
		if rs[0].Lag != nil {
			cells[10], cells[11] = mid(func(r run) float64 { return r.Lag.P50 }), mid(func(r run) float64 { return r.Lag.P99 })
			cells[12] = top(func(r run) float64 { return r.Lag.Max })
			cells[13] = rig.Verdicts(rs, func(r run) string { return r.Verdict })
		}
		table.Rows = append(table.Rows, cells)
	}
	fmt.Fprintf(l.out, "\n### %d requests/s, %d runs of %v each in turns, the first second left out\n\n%v\n", rate, rounds, span, table)
}
