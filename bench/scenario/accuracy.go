package scenario

import (
	"context"
	"fmt"
	"io"

	"weir/bench/report"
	"weir/bench/rig"
)

// Accuracy is measured over whole seconds, from when the token bucket's burst is spent until
// shortly before the end of the load.
const (
	accuracySeconds = 60
	accuracyFrom    = 4
	accuracyTo      = accuracySeconds - 3
	offMax          = 0.005 // relative deviation of the admitted rate from the limit
)

// Accuracy offers twice a limit with each algorithm and prints how many requests per second the
// target served. It fails if one was off by more than half a percent, or if requests were lost.
func Accuracy(ctx context.Context, out io.Writer) error {
	fmt.Fprintf(out, "%d/s through a limit of %d/s, %d s each, GATE=off; counted at the target over whole seconds after %d s\n\n", 2*limit, limit, accuracySeconds, accuracyFrom)
	report.Head(out, "algorithm", "sent", "admitted", "refused", "failed", "target: per second", "off by", "generator")
	var e report.Expectations
	var wrong []*rig.Loaded
	for _, a := range []string{"fixed", "sliding", "token"} {
		o, err := trial{rate: 2 * limit, seconds: accuracySeconds, Topology: rig.Topology{Proxy: []string{"GATE=off", "RATE_LIMIT_ALGORITHM=" + a,
			fmt.Sprintf("RATE_LIMIT_LIMIT=%d", limit), fmt.Sprintf("RATE_LIMIT_CAPACITY=%d", limit), fmt.Sprintf("RATE_LIMIT_FILL_RATE=%d", limit)}}}.run(ctx)
		if err != nil {
			return err
		}
		l, off := o.loads[0], o.off()
		report.Row(out, a, fmt.Sprint(l.Sent), fmt.Sprint(l.Success), fmt.Sprint(l.RateLimited), fmt.Sprint(l.Errors), fmt.Sprintf("%.2f", limit*(1+off)),
			fmt.Sprintf("%+.3f %%", 100*off), fmt.Sprintf("%s, lag p99 %.0f µs", l.Verdict, 1e6*l.Lag.P99))
		before := len(e.Missed())
		if o.exact(&e, a); len(e.Missed()) > before {
			wrong = append(wrong, l)
		}
	}
	return e.Conclude(out, "each limit was kept within half a percent, and no request was lost.", rig.Doubt(wrong))
}

// off returns the relative deviation of the rate at the target from the limit.
func (o *outcome) off() float64 {
	var admitted, seconds float64
	for _, s := range o.seconds {
		if s.n > accuracyFrom && s.n <= accuracyTo {
			admitted, seconds = admitted+float64(s.admitted), seconds+1
		}
	}
	return admitted/seconds/limit - 1
}

// exact expects that the limit was kept and that no request was lost.
func (o *outcome) exact(e *report.Expectations, algorithm string) {
	l, off := o.loads[0], o.off()
	e.AtMost(algorithm+": relative deviation from the limit", off, offMax)
	e.AtLeast(algorithm+": relative deviation from the limit", off, -offMax)
	e.Never(l.Errors > 0, "%s: %d requests failed", algorithm, l.Errors)
	e.Never(l.Sent != l.Success+l.RateLimited, "%s: of %d requests %d were answered", algorithm, l.Sent, l.Success+l.RateLimited)
}
