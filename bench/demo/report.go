package demo

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"weir/bench/rig"
)

// report prints what happened, as a table and in words.
func report(out io.Writer, rows []row) error {
	fmt.Fprintf(out, "\nWhat the load generator sent, what the proxy let through, and what the target saw of it\n\n")
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "algorithm\tload/s\tsent\tadmitted\trefused\trefused %\texpected %\tp50 ms\tp95 ms\tp99 ms\t429 p99\ttarget saw\tits ms\t\t \t")
	for i := range rows {
		r := &rows[i]
		l := r.load
		lat := l.LatencySuccess
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%.1f\t%s\t%.1f\t%.1f\t%.1f\t%s\t%d\t%.1f\t%s\t%s\t\n", r.algorithm, r.rate, l.Sent, l.Success, l.RateLimited,
			share(l.RateLimited, l.Sent), r.expectedShare(), 1e3*lat.P50, 1e3*lat.P95, 1e3*lat.P99, r.refusalP99(), r.served, 1e3*r.busyTime, r.bar(), r.mark())
	}
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Fprint(out, explanation)
	return verdict(out, rows)
}

const explanation = `
Times count from when a request was due, not from when it was sent. "expected" is the share that the limit
has to refuse: windows begin where the clock has them, so the first and the last second of a phase may each
let a window through; a token bucket starts full and adds what it has stored; ±1 % for arrivals that are not
where they should be. The target's own milliseconds show the shape of what reaches it: a fixed window lets
a whole second's worth through at once, the other two spread it out after their first burst.
`

func verdict(out io.Writer, rows []row) error {
	var problems []string
	var doubtful error // of the rows with a problem
	conclusive := false
	for i := range rows {
		r := &rows[i]
		if r.problem != "" {
			err := rig.Inconclusive(r.load)
			doubtful, conclusive = cmp.Or(doubtful, err), conclusive || err == nil
			problems = append(problems, fmt.Sprintf("%s at %d/s: %s (the generator's verdict on itself: %s)", r.algorithm, r.rate, r.problem, r.load.Verdict))
		}
	}
	if len(problems) > 0 && !conclusive {
		fmt.Fprintf(out, "\nNot as expected, which proves nothing, as the load was not as planned:\n  %s\n", strings.Join(problems, "\n  "))
		return doubtful
	}
	if len(problems) > 0 {
		fmt.Fprintf(out, "\nNOT AS EXPECTED:\n  %s\n", strings.Join(problems, "\n  "))
		return ErrNotAsExpected
	}
	fmt.Fprintf(out, "\nAll as expected: nothing was refused below the limit, nothing beyond it got through, no request was lost.\n")
	return nil
}

// bar draws what was admitted of what was sent.
func (r *row) bar() string {
	const width = 20
	full := int(share(r.load.Success, r.load.Sent)*width/100 + 0.5)
	return strings.Repeat("█", full) + strings.Repeat("░", width-full)
}

func (r *row) mark() string {
	if r.problem != "" {
		return "✗"
	}
	return "✓"
}

func (r *row) refusalP99() string {
	if r.load.RateLimited == 0 {
		return "–"
	}
	return fmt.Sprintf("%.1f", 1e3*r.load.LatencyLimited.P99)
}

// expectedShare is the share of refusals that the span of admissions means.
func (r *row) expectedShare() string {
	sent := r.load.Sent
	least, most := share(sent-min(sent, r.expected.most), sent), share(sent-min(sent, r.expected.least), sent)
	if least == most {
		return fmt.Sprintf("%.1f", least)
	}
	return fmt.Sprintf("%.1f…%.1f", least, most)
}

func share(part, whole uint64) float64 {
	if whole == 0 {
		return 0
	}
	return 100 * float64(part) / float64(whole)
}
