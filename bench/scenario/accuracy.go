package scenario

import (
	"context"
	"fmt"
	"io"

	"weir/bench/report"
	"weir/bench/rig"
)

// How exactly limits are kept is counted over whole seconds, from when the token
// bucket's stored burst is spent until the load nears its end.
const (
	accuracySeconds = 60
	accuracyFrom    = 4
	accuracyTo      = accuracySeconds - 3
	// offMax is the share by which the admitted rate may miss the limit.
	offMax = 0.005
)

// Accuracy drives twice a limit under each algorithm and prints how many requests per
// second the target served. The error says that one was off by more than half a
// percent, or that requests were lost.
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

// off is by which share the rate that the target saw misses the limit.
func (o *outcome) off() float64 {
	var admitted, seconds float64
	for _, s := range o.seconds {
		if s.n > accuracyFrom && s.n <= accuracyTo {
			admitted, seconds = admitted+float64(s.admitted), seconds+1
		}
	}
	return admitted/seconds/limit - 1
}

// exact expects that the limit was kept and no request lost.
func (o *outcome) exact(e *report.Expectations, algorithm string) {
	l, off := o.loads[0], o.off()
	e.AtMost(algorithm+": rate above the limit, share", off, offMax)
	e.AtLeast(algorithm+": rate above the limit, share", off, -offMax)
	e.Never(l.Errors > 0, "%s: %d requests failed", algorithm, l.Errors)
	e.Never(l.Sent != l.Success+l.RateLimited, "%s: of %d requests %d were answered", algorithm, l.Sent, l.Success+l.RateLimited)
}
