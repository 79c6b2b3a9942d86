package advisor

import (
	"fmt"
	"io"

	"weir/bench/closedloop"
	"weir/proxy/limit"
)

// printLog plays one scenario once more with the advisor and prints what it saw and
// said, snapshot by snapshot.
func printLog(out io.Writer, s *closedloop.Scenario, c closedloop.Contestant) error {
	fmt.Fprintf(out, "\n### %s: %s\n\n", c.Name, s.Name)
	head(out, "at s", "capacity", "demand", "observed", "let through", "p95 ms", "errors %", "limit", "said", "why")
	told := *s
	told.Listen = func(n closedloop.Snapshot, rate float64, algorithm, reason string) {
		inForce := n.Limit.FillRate
		if n.Limit.Algorithm != limit.Token {
			inForce = float64(n.Limit.Limit) / n.Limit.Window
		}
		row(out, fmt.Sprintf("%.0f", n.Elapsed), fmt.Sprintf("%.0f", s.Target.Capacity(n.Elapsed)), fmt.Sprintf("%.0f", s.Demand.Mean(n.Elapsed-n.Interval.Seconds(), n.Elapsed)),
			fmt.Sprintf("%.0f", n.Observed), fmt.Sprintf("%.0f", n.Forwarded), fmt.Sprintf("%.0f", 1000*n.P95.Seconds()), fmt.Sprintf("%.1f", 100*n.Errors),
			fmt.Sprintf("%s %.1f", n.Limit.Algorithm, inForce), fmt.Sprintf("%s %.1f", algorithm, rate), reason)
	}
	_, err := closedloop.Run(&told, c.New(&told))
	return err
}
