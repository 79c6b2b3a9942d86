package demo

import (
	"fmt"
	"io"
	"strings"

	"weir/bench/report"
	"weir/bench/rig"
)

// show prints the rows as a table, and the conclusion.
func show(out io.Writer, rows []row) error {
	table := report.NewTable("algorithm|load/s|sent|admitted|refused|refused %|expected %|p50 ms|p95 ms|p99 ms|429 p99|target saw|its ms||")
	for i := range rows {
		r := &rows[i]
		l := r.load
		lat := l.LatencySuccess
		table.Add("%s|%d|%d|%d|%d|%.1f|%s|%.1f|%.1f|%.1f|%s|%d|%.1f|%s|%s", r.algorithm, r.rate, l.Sent, l.Success, l.RateLimited,
			share(l.RateLimited, l.Sent), r.expectedShare(), 1e3*lat.P50, 1e3*lat.P95, 1e3*lat.P99, r.refusalP99(), r.served, 1e3*r.busyTime, r.bar(), r.mark())
	}
	fmt.Fprintf(out, "\nWhat the load generator sent, what the proxy admitted, and what the target received\n\n%s%s", table.Text(), explanation)
	return judge(out, rows)
}

const explanation = `
Times count from when a request was due, not from when it was sent. "expected" is the share that the limit
must refuse. Windows are aligned to the clock, so the first and the last second of a phase may each admit a
whole window. A token bucket starts full, so it admits its capacity in addition. Arrivals are not exact,
hence ±1 %. "its ms" is the mean time in the target, which depends on the shape of the traffic: a fixed
window admits the requests of a second at once, the other two spread them out after their first burst.
`

// judge concludes. Problems prove nothing if they occur only with loads that were not as planned.
func judge(out io.Writer, rows []row) error {
	var e report.Expectations
	var wrong []*rig.Loaded
	for i := range rows {
		r := &rows[i]
		e.Never(r.problem != "", "%s at %d/s: %s (the generator's verdict on itself: %s)", r.algorithm, r.rate, r.problem, r.load.Verdict)
		if r.problem != "" {
			wrong = append(wrong, r.load)
		}
	}
	return e.Conclude(out, "nothing was refused below the limit, nothing above it was admitted, no request was lost.", rig.Doubt(wrong))
}

// bar draws the admitted share.
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
	return fmt.Sprintf("%.1f", 1e3*r.load.LatencyRateLimited.P99)
}

// expectedShare formats the expected share of refusals, in percent.
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
