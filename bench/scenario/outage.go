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
	// goodAgain is how long after the target's return everything must be well.
	goodAgain = time.Second
)

// Outage kills the target under load, starts it again, and prints what the clients
// saw in each second. The error says what was not as it should be: an answer other
// than 200 or 502, a failure outside the outage, or a request without an answer.
func Outage(ctx context.Context, out io.Writer) (err error) {
	t := trial{rate: outageRate, seconds: 14, progress: rig.Echo(out), Topology: rig.Topology{Proxy: []string{"RATE_LIMIT_LIMIT=1000000"}},
		troubles: []Trouble{{4 * time.Second, killTarget}, {8 * time.Second, restartTarget}}}
	fmt.Fprintf(out, "%d/s for %d s through a proxy without a limit that matters; the target is killed at %v and starts again at %v\n\n", t.rate, t.seconds, t.troubles[0].At, t.troubles[1].At)
	o, err := t.run(ctx)
	if err != nil {
		return err
	}
	return o.showOutage(out)
}

// showOutage prints the seconds and checks them. Rows are by when requests were
// done, so a second that touches the outage may hold failures.
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
	fmt.Fprintf(out, "\nthe target was away from %.2f s to %.2f s\n\n%v\nanswers by status: %v; without an answer: %v\n", gone.Seconds(), back.Seconds(), table, l.StatusCodes, l.ErrorsByReason)
	for status := range l.StatusCodes {
		e.Never(status != "200" && status != "502", "answers with status %s", status)
	}
	n := l.Sent - l.Success - l.StatusCodes["502"]
	e.Never(n > 0, "%d requests without an answer", n)
	// What came while the target was away, and what was in flight.
	most := uint64(outageRate*(back-gone+goodAgain).Seconds()) + outageRate/10
	e.Never(l.Errors > most, "%d failures, at most %d were due to the outage", l.Errors, most)
	return e.Conclude(out, "only requests of the outage failed, with a 502 at once, and all was well within a second of its end.", rig.Inconclusive(l))
}
