package advisor

import (
	"fmt"
	"io"

	"weir/advisor/core"
	"weir/bench/closedloop"
	"weir/bench/report"
	"weir/bench/rig"
)

// printLog plays a scenario once more with the advisor, and prints each snapshot with its
// answer.
func printLog(out io.Writer, s *closedloop.Scenario, c closedloop.Contestant) {
	fmt.Fprintf(out, "\n### %s: %s\n\n", c.Name, s.Name)
	report.Head(out, "at s", "capacity", "demand", "observed", "let through", "answered", "p95 ms", "errors %", "gate %", "gate limit", "limit", "said", "why")
	logged := *s
	logged.Listen = func(n closedloop.Snapshot, r core.Reply) {
		span := n.Interval.Seconds()
		report.Row(out, fmt.Sprintf("%.0f", n.Elapsed), fmt.Sprintf("%.0f", s.Target.Capacity(n.Elapsed)), fmt.Sprintf("%.0f", s.Demand.Mean(n.Elapsed-span, n.Elapsed)),
			fmt.Sprintf("%.0f", n.Observed), fmt.Sprintf("%.0f", n.Forwarded), fmt.Sprintf("%.0f", n.Ended/span), fmt.Sprintf("%.0f", 1000*n.P95), fmt.Sprintf("%.1f", 100*n.Errors),
			fmt.Sprintf("%.0f", 100*n.GateShare), fmt.Sprintf("%.1f", n.GateLimit), fmt.Sprintf("%.1f", n.Limit.Rate()), fmt.Sprintf("%.1f", r.Limit.Rate()), fmt.Sprint(r.Advice.Codes, " ", r.Advice.Reason))
	}
	rig.Must(closedloop.Run(&logged, c.New(&logged)))
}
