package speed

import (
	"errors"
	"fmt"
	"os/exec"
	"time"

	"weir/bench/report"
	"weir/bench/rig"
)

// A contestant is a server under load.
type contestant struct {
	name    string
	url     string
	process *rig.Process
	script  string // of wrk; empty: plain requests
	header  string // a field of each request; empty: none
}

// A sample is one run against a contestant.
type sample struct {
	requests float64
	perSec   float64
	cpu      time.Duration // of the contestant, per request
	store    float64       // µs of its Redis per request; 0: it has none of its own
	p50      time.Duration
	failed   int
}

// perSec, cpuEach and the others are the figures that comparisons are about.
func perSec(s sample) float64   { return s.perSec }
func cpuEach(s sample) float64  { return micros(s.cpu) }
func storeCPU(s sample) float64 { return s.store }
func p50(s sample) float64      { return micros(s.p50) }

func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }

// sample drives the contestant for a time.
func (l *lab) sample(c contestant, connections int, span time.Duration) (sample, error) {
	r, used, err := rig.Wrk{URL: c.url, Connections: connections, For: span, Script: c.script, Header: c.header}.Against(l.ctx, c.process.Pid())
	return sample{requests: r.Requests, perSec: r.PerSecond, cpu: time.Duration(float64(used) / max(r.Requests, 1)), p50: r.P50, failed: r.Failed}, err
}

// turns lets contestants take turns over connections, and returns the runs of each.
func (l *lab) turns(all []contestant, connections int) ([][]sample, error) {
	return l.each(len(all), func(i int) (sample, error) { return l.sample(all[i], connections, l.span) })
}

// each lets n sides take turns.
func (l *lab) each(n int, run func(i int) (sample, error)) ([][]sample, error) {
	runs := make([][]sample, n)
	for range l.rounds {
		for i := range runs {
			s, err := run(i)
			if err != nil {
				return nil, err
			}
			runs[i] = append(runs[i], s)
		}
	}
	return runs, nil
}

// medianOf and ratioOf are cells of tables: the median of a figure, and of the pairs'
// ratios, ours to the peer's, with its ends.
func medianOf(runs []sample, digits int, of func(sample) float64) string {
	return fmt.Sprintf("%.*f", digits, report.MedianOf(runs, of))
}

func ratioOf(ours, peers []sample, of func(sample) float64) string {
	return report.RatioOf(ours, peers, of).Ratio(2)
}

func (l *lab) heading(text string) { fmt.Fprintf(l.out, "\n### %s\n\n", text) }

func (l *lab) table(columns ...string) { report.Head(l.out, columns...) }

func (l *lab) row(cells ...string) { report.Row(l.out, cells...) }

// compare lets contestants take turns, ours last, and prints a table. Answers
// are to be refusals, or none may be one.
func (l *lab) compare(peers []contestant, ours contestant, connections int, refused bool) error {
	all := append(peers[:len(peers):len(peers)], ours)
	runs, err := l.turns(all, connections)
	if err != nil {
		return err
	}
	for i, c := range all {
		for _, s := range runs[i] {
			if got := float64(s.failed) / s.requests; refused && got < 0.99 || !refused && got > 0 {
				return fmt.Errorf("%s: %.1f %% of its answers are not 2xx, which makes the comparison worthless", c.name, 100*got)
			}
		}
	}
	l.table("", "requests/s", "CPU µs per request", "requests/s: "+ours.name+" ÷ it", "CPU: "+ours.name+" ÷ it")
	mine := runs[len(peers)]
	for i, c := range all {
		cells := []string{c.name, medianOf(runs[i], 0, perSec), medianOf(runs[i], 1, cpuEach), "", ""}
		if i < len(peers) {
			cells[3], cells[4] = ratioOf(mine, runs[i], perSec), ratioOf(mine, runs[i], cpuEach)
		}
		l.row(cells...)
	}
	return nil
}

// missingTools says which of the programs that a comparison takes are not there.
func missingTools(names ...string) (err error) {
	for _, name := range names {
		if _, e := exec.LookPath(name); e != nil {
			err = errors.Join(err, fmt.Errorf("%s is not installed, so there is nothing to compare with; make bench-setup installs it", name))
		}
	}
	return err
}
