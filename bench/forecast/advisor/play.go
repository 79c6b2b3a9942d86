package advisor

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"sync/atomic"
	"time"

	"weir/advisor/core"
	"weir/bench/forecast/closedloop"
	"weir/bench/lab/result"
	"weir/bench/lab/rig"
)

// A played has the results of all strategies in a scenario.
type played struct {
	*closedloop.Scenario
	results map[string]*closedloop.Result
}

// play plays every scenario with every strategy, GOMAXPROCS scenarios at once, and
// reports its progress.
func play(ctx context.Context, scenarios []*closedloop.Scenario, strategies []closedloop.Strategy,
	progress io.Writer) []*played {
	out := make([]*played, len(scenarios))
	began := time.Now()
	var done atomic.Int64
	each(ctx, len(scenarios), func(i int) {
		rig.Section(scenarios[i].Name, func() { out[i] = playOne(ctx, scenarios[i], strategies) })
		fmt.Fprintf(progress, "\r%d of %d scenarios, %v", done.Add(1), len(scenarios), time.Since(began).Round(time.Second))
	})
	fmt.Fprintln(progress)
	return out
}

// each calls f for 0 to n-1 until ctx ends, GOMAXPROCS of them at the same time.
func each(ctx context.Context, n int, f func(i int)) {
	var next atomic.Int64
	rig.Parallel(min(runtime.GOMAXPROCS(0), n), func(int) {
		for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
			rig.Check(ctx.Err())
			f(i)
		}
	})
}

func playOne(ctx context.Context, s *closedloop.Scenario, strategies []closedloop.Strategy) *played {
	if len(s.History) > 0 { // the strategies begin with what a core learns from it
		c := core.New(s.AdvisorSettings())
		c.Import(s.History)
		rig.Section("write down what was learned", func() { s.Memory = rig.Must(c.Parts()) })
	}
	p := &played{s, make(map[string]*closedloop.Result)}
	for _, c := range strategies {
		rig.Check(ctx.Err())
		rig.Section(c.Name, func() { p.results[c.Name] = rig.Must(closedloop.Run(s, c.New(s))) })
	}
	return p
}

// printLog plays a scenario once more with the advisor, and prints each snapshot with its
// answer.
func printLog(out *result.Report, s *closedloop.Scenario, c closedloop.Strategy) {
	t := result.NewTable("at s | capacity | demand | observed | let through | answered | p95 ms | errors % | gate % | " +
		"gate limit | limit | said | why")
	logged := *s
	logged.OnRecommendation = func(n closedloop.Snapshot, r core.Response) {
		span := n.Interval.Seconds()
		t.Add("%.0f | %.0f | %.0f | %.0f | %.0f | %.0f | %.0f | %.1f | %.0f | %.1f | %.1f | %.1f | %v %v", n.Elapsed,
			s.Target.Capacity(n.Elapsed), s.Demand.Mean(n.Elapsed-span, n.Elapsed),
			n.Observed, n.Forwarded, n.Ended/span, 1000*n.P95, 100*n.Errors, 100*n.GateShare, n.GateLimit, n.Limit.Rate(),
			r.Limit.Rate(), r.Recommendation.Codes, r.Recommendation.Reason)
	}
	rig.Must(closedloop.Run(&logged, c.New(&logged)))
	printTable(out, c.Name+": "+s.Name, t)
}
