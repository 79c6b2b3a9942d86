package scenario

import (
	"context"
	"fmt"
	"io"
	"time"

	"weir/bench/report"
	"weir/bench/rig"
)

const (
	outageRate = 2000
	goodAgain  = time.Second // from the target's return until requests must succeed again
)

// Outage kills and restarts the target under load, and prints the answers in each second. It
// fails if there is an answer other than 200 or 502, a failure outside the outage, or a request
// without an answer.
func Outage(ctx context.Context, out io.Writer) (err error) {
	t := trial{rate: outageRate, seconds: 14, progress: out, Topology: rig.Topology{Proxy: []string{"RATE_LIMIT_LIMIT=1000000"}},
		troubles: []Trouble{{4 * time.Second, killTarget}, {8 * time.Second, restartTarget}}}
	fmt.Fprintf(out, "%d/s for %d s through a proxy whose limit is never reached; the target is killed at %v and restarted at %v\n\n", t.rate, t.seconds, t.troubles[0].At, t.troubles[1].At)
	o, err := t.run(ctx)
	if err != nil {
		return err
	}
	return o.showOutage(out)
}

// showOutage prints and checks the seconds. A row counts requests by when they were done, so
// each second that overlaps the outage may contain failures.
func (o *outcome) showOutage(out io.Writer) error {
	l, gone, back := o.loads[0], o.troubles[0].At, o.troubles[1].At
	table := report.NewTable("second | answered 200 | failed | p99 ms")
	var e report.Expectations
	for _, row := range l.Series.Rows {
		table.Add("%.0f | %d | %d | %.1f", row.T, row.Success, row.Errors, 1e3*row.LatencyP99)
		from := time.Duration(row.T * float64(time.Second))
		during := from+time.Second >= gone && from < back+goodAgain
		e.Never(row.Errors > 0 && !during, "%d failures in second %.0f", row.Errors, row.T)
	}
	fmt.Fprintf(out, "\nthe target was down from %.2f s to %.2f s\n\n%v\nanswers by status: %v; without an answer: %v\n", gone.Seconds(), back.Seconds(), table, l.StatusCodes, l.ErrorsByReason)
	for status := range l.StatusCodes {
		e.Never(status != "200" && status != "502", "answers with status %s", status)
	}
	n := l.Sent - l.Success - l.StatusCodes["502"]
	e.Never(n > 0, "%d requests without an answer", n)
	// Requests during the outage, and those in flight at its start.
	most := uint64(outageRate*(back-gone+goodAgain).Seconds()) + outageRate/10
	e.Never(l.Errors > most, "%d failures, at most %d were due to the outage", l.Errors, most)
	return e.Conclude(out, "only requests during the outage failed, with an immediate 502, and requests succeeded again within a second of its end.", rig.Inconclusive(l))
}
