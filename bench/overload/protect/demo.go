package protect

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"weir/bench/lab/result"
	"weir/bench/lab/rig"
	"weir/loadgen/record"
)

// Demo plays the plotted scenario without the gate and with it, prints a line per second, and
// draws the picture of these two runs into a new file. It misses an expectation if the gate did not
// protect the target.
func Demo(l *rig.Lab) { demo(l, 1) }

func demo(of *rig.Lab, shorter float64) {
	dir := rig.Must(os.MkdirTemp("", "weir-demo-gate-"))
	drawn := false
	defer func() {
		if !drawn {
			os.RemoveAll(dir)
		}
	}()
	o := &Options{Dir: dir, Only: plottedScenario + ",none,gate", Rounds: 1, Shorter: shorter}
	l := &lab{Options: o, out: of.Report, file: filepath.Join(dir, RunsFile), live: true}
	s := &rig.Must(o.chosen())[0]
	from, to, _ := s.bad()
	fmt.Fprintf(of, "Weir demo: a target that can serve %.0f requests per second receives %.0f, "+
		"and loses half its speed from second %.0f to %.0f\n\n",
		s.capacity(s.Phases[0]), s.Phases[0].Rate, from.Seconds(), to.Seconds())
	for i, c := range contrasts() {
		fmt.Fprintf(of, "▶ %d of %d: %s, %.0f s\n", i+1, len(contrasts()), c.label, s.Length().Seconds())
		l.playOne(of.Ctx, turn{s, []string{c.side}, 1}, sideNamed(c.side))
	}
	c, _ := l.picture(s)
	file := filepath.Join(dir, PlotFile)
	rig.Check((&result.Figure{Label: s.Name}).Draw(c, file))
	drawn = true
	err := l.contrast(s)
	fmt.Fprintf(of, "\nThe picture of this run: %s\n", file)
	rig.Check(err)
}

// line returns a function that prints what the proxy has counted since its last call; start is
// that of the load.
func (st *stage) line(start time.Time, out io.Writer) func() {
	ctx := st.Ctx // During replaces it
	before, then := rig.Must(rig.Scrape(ctx, st.fronts[0])), time.Now()
	return func() {
		now, at := rig.Must(rig.Scrape(ctx, st.fronts[0])), time.Now()
		if at.After(start) {
			const answers = "ratelimiter_upstream_response_duration_seconds"
			state := "at full speed"
			if st.s.Phases[st.s.phase(at.Sub(start))].Bad {
				state = "at half its speed"
			}
			rate := func(name string) float64 { return now.Since(before, name) / at.Sub(then).Seconds() }
			fmt.Fprintf(out, "  %3.0f s  target %-17s  %5.0f answers/s after %5.0f ms (p95)  %4.0f shed/s\n",
				at.Sub(start).Seconds(), state, rate(answers+"_count"), 1e3*now.Quantile(.95, before, answers),
				rate("ratelimiter_gate_shed_total"))
		}
		before, then = now, at
	}
}

// contrast prints the runs with and without the gate, and judges them. A missed expectation proves
// nothing if one of the loads was not as planned, since the target shares the machine with it.
func (l *lab) contrast(s *Scenario) error {
	table := result.NewTable("|could be in time|in time|%|p99 of the 200s ms|shed|generator")
	var e result.Expectations
	var reasons []string
	validity := record.Valid
	var shares []float64
	for _, c := range contrasts() {
		r, _ := l.played(s, c.side, 1)
		shares = append(shares, goodput(r))
		table.Add("%s|%.0f|%d|%.1f|%.0f|%d|%s", c.label, r.Ideal, r.InTime, 100*goodput(r), 1e3*r.P99, r.Shed, r.Verdict)
		validity, reasons = record.Worse(validity, r.Verdict), append(reasons, r.Reasons...)
	}
	fmt.Fprintf(l.out, "\nRequests answered within %d ms of when they were due, "+
		"and how many the target could have served by then\n\n%s", s.InTime.Milliseconds(), table.Text())
	without, with := shares[0], shares[1]
	e.AtLeast("with the gate: in time of what was possible", with, s.Goal.InTime)
	e.Never(with <= without, "with the gate %.3f of what was possible was in time, without it %.3f", with, without)
	var doubt error
	if validity != record.Valid {
		doubt = rig.MachineBusy(reasons)
	}
	return e.Conclude(l.out, "with the gate, what the slow target could serve was answered in time.", doubt)
}
