// Package pacing records at the receiving side when requests arrive, and compares that
// with when they were due: for our load generator, alone and as one of several, and for
// peers at the same time on the same machine.
package pacing

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"weir/bench/lab/result"
	"weir/bench/lab/rig"
	"weir/loadgen/record"
)

const (
	rounds = 3 // runs of each generator at each rate, in turns
	span   = 6 * time.Second
	quiet  = 300 * time.Millisecond // between runs, so that one does not affect the next

	probes     = 3000 // requests that measure the recorder itself
	probeEvery = time.Millisecond
)

// A run is one run of a generator, as seen by the receiver.
type run struct {
	name string
	own
	judgement
}

// lab is one run of the experiment.
type lab struct {
	*rig.Lab
	recorder *recorder
}

// Run measures the generators and prints Markdown.
func Run(of *rig.Lab) {
	l := &lab{Lab: of, recorder: rig.Must(startRecorder())}
	l.Cleanup(l.recorder.sockets.Stop)
	l.calibrate()
	all := l.installed()
	for _, rate := range []int{1000, 10_000} {
		l.table(rate, rig.Alternate(rounds, len(all), func(i int) (r run) {
			rig.Section(fmt.Sprintf("%s at %d/s", all[i].name, rate), func() { r = l.once(all[i], rate) })
			fmt.Fprintf(l, "  %d/s %s: %d arrived, gap error p99 %.0f µs, late p99 %.0f µs\n", rate, r.name, r.Requests,
				micros(r.Gap.P99), micros(r.Late.P99))
			return r
		}))
	}
}

// calibrate measures and prints the precision of the recorder.
func (l *lab) calibrate() {
	load := loadAverage() // of other programs
	var s record.Summary
	rig.Section("measure the recorder", func() { s = spreadOf(rig.Must(l.recorder.precision(probes, probeEvery))) })
	l.Heading("Pacing, seen at the receiving side")
	l.Note("Arrival times are taken by the kernel (SO_TIMESTAMPNS). With %d requests of the recorder itself they were "+
		"p50 %.0f µs, p99 %.0f µs and at most %.0f µs after the start of write(2), which the recorder and the kernel add "+
		"to the figures below. Load average of the machine at the start: %s.", probes,
		micros(s.P50), micros(s.P99), micros(s.Max), load)
}

// loadAverage returns the machine's load average over one, five and fifteen minutes.
func loadAverage() string {
	text, _ := os.ReadFile("/proc/loadavg")
	if fields := strings.Fields(string(text)); len(fields) > 3 {
		return strings.Join(fields[:3], ", ")
	}
	return "unknown"
}

// installed returns the installed generators and prints the names of the others.
func (l *lab) installed() (there []generator) {
	var missing []string
	for _, g := range generators() {
		if g.command != nil && rig.RequireInstalled(g.name) != nil {
			missing = append(missing, g.name)
			continue
		}
		there = append(there, g)
	}
	if len(missing) > 0 {
		l.Note("Not installed, and left out: %s.", strings.Join(missing, ", "))
	}
	return there
}

func (l *lab) once(g generator, rate int) run {
	l.Wait(time.Now().Add(quiet))
	l.recorder.take()
	r := run{name: g.name, own: g.run(l.Lab, l.recorder.addr, rate, span)}
	stamps, unstamped := l.recorder.take()
	if unstamped > 0 || len(stamps) == 0 {
		rig.Check(fmt.Errorf("%d requests arrived, and the kernel gave no arrival time for %d", len(stamps), unstamped))
	}
	start, known := r.start.UnixNano(), !r.start.IsZero()
	if !known {
		start = stamps[0]
		r.due = even(int(span.Seconds()*float64(rate)), rate)
	}
	arrivals := result.Map(stamps, func(s int64) time.Duration { return time.Duration(s - start) })
	r.judgement = judge(arrivals, r.due, known)
	return r
}

func micros(seconds float64) float64 { return 1e6 * seconds }

// table prints the runs at a rate: medians, and maxima over all runs.
func (l *lab) table(rate int, runs [][]run) {
	table := result.NewTable("| requests | missing | rate error | gap error p50 µs | p99 | max | late p50 µs | p99 | " +
		"max | own lag p50 µs | p99 | max | verdict")
	for _, rs := range runs {
		mid := func(of func(r run) float64) string { return fmt.Sprintf("%.0f", result.MedianOf(rs, of)) }
		top := func(of func(r run) float64) string { return fmt.Sprintf("%.0f", result.SpreadOf(rs, of).Most) }
		times := func(of func(r run) *record.Summary) []string {
			return []string{mid(func(r run) float64 { return micros(of(r).P50) }),
				mid(func(r run) float64 { return micros(of(r).P99) }), top(func(r run) float64 { return micros(of(r).Max) })}
		}
		own := []string{"", "", "", ""}
		if rs[0].lag != nil {
			own = append(times(func(r run) *record.Summary { return r.lag }),
				rig.CountValidities(rs, func(r run) record.Validity { return r.says }))
		}
		table.Rows = append(table.Rows, slices.Concat(
			[]string{rs[0].name, mid(func(r run) float64 { return float64(r.Requests) }),
				top(func(r run) float64 { return float64(r.Missing) }),
				fmt.Sprintf("%+.4f %%", 100*result.MedianOf(rs, func(r run) float64 { return r.RateError }))},
			times(func(r run) *record.Summary { return &r.Gap }), times(func(r run) *record.Summary { return &r.Late }), own))
	}
	l.Heading("%d requests/s, %d runs of %v each in turns, the first second left out", rate, rounds, span)
	l.Table(table)
}
