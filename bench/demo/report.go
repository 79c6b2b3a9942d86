package demo

import (
	"fmt"
	"io"
	"strings"

	"weir/bench/report"
	"weir/bench/rig"
)

func show(out io.Writer, all []phase) error {
	table := report.NewTable("algorithm|load/s|sent|admitted|refused|refused %|expected %|p50 ms|p95 ms|p99 ms|429 p99|target saw|its ms||")
	for i := range all {
		p := &all[i]
		l, lat := p.load, p.load.LatencySuccess
		refusals, mark := "–", "✓"
		if l.RateLimited > 0 {
			refusals = fmt.Sprintf("%.1f", 1e3*l.LatencyRateLimited.P99)
		}
		if p.problem() != "" {
			mark = "✗"
		}
		table.Add("%s|%d|%d|%d|%d|%.1f|%s|%.1f|%.1f|%.1f|%s|%d|%.1f|%s|%s", p.algorithm, p.rate, l.Sent, l.Success, l.RateLimited,
			share(l.RateLimited, l.Sent), p.expectedShare(), 1e3*lat.P50, 1e3*lat.P95, 1e3*lat.P99, refusals, p.served, 1e3*p.busyTime, p.bar(), mark)
	}
	fmt.Fprintf(out, "\nWhat the load generator sent, what the proxy admitted, and what the target received\n\n%s%s", table.Text(), explanation)
	return judge(out, all)
}

const explanation = `
Times count from when a request was due, not from when it was sent. "expected" is the share that the limit
must refuse. Windows are aligned to the clock, so the first and the last second of a phase may each admit a
whole window. A token bucket starts full, so it admits its capacity in addition. Arrivals are not exact,
hence ±1 %. "its ms" is the mean time in the target, which depends on the shape of the traffic: a fixed
window admits the requests of a second at once, the other two spread them out after their first burst.
`

// judge concludes. Problems prove nothing if they occur only with loads that were not as planned.
func judge(out io.Writer, all []phase) error {
	var e report.Expectations
	var wrong []*rig.Loaded
	for i := range all {
		p := &all[i]
		problem := p.problem()
		e.Never(problem != "", "%s at %d/s: %s (the generator's verdict on itself: %s)", p.algorithm, p.rate, problem, p.load.Verdict)
		if problem != "" {
			wrong = append(wrong, p.load)
		}
	}
	return e.Conclude(out, "nothing was refused below the limit, nothing above it was admitted, no request was lost.", rig.Doubt(wrong))
}

func (p *phase) bar() string {
	const width = 20
	full := int(share(p.load.Success, p.load.Sent)*width/100 + 0.5)
	return strings.Repeat("█", full) + strings.Repeat("░", width-full)
}

// expectedShare formats the expected share of refusals, in percent.
func (p *phase) expectedShare() string {
	sent, expected := p.load.Sent, p.admitted(limit)
	least, most := share(sent-min(sent, expected.most), sent), share(sent-min(sent, expected.least), sent)
	if least == most {
		return fmt.Sprintf("%.1f", least)
	}
	return fmt.Sprintf("%.1f…%.1f", least, most)
}

func share(part, whole uint64) float64 { return 100 * float64(part) / float64(max(whole, 1)) }
