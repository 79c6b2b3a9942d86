package shared

import (
	"fmt"
	"io"
	"math"
	"strings"

	"weir/bench/rig"
)

// off is by how much a second may miss the limit while Redis is up.
const off = 0.005

// latencyMax is how late the latest answer may be: REDIS_TIMEOUT, and what a
// busy machine takes.
const latencyMax = 0.5

// judge prints the sums and says what was not as promised. When the load was not as
// planned either, that proves nothing.
func judge(out io.Writer, seconds []second, loads []*rig.Loaded) error {
	var problems []string
	problem := func(wrong bool, format string, args ...any) {
		if wrong {
			problems = append(problems, fmt.Sprintf(format, args...))
		}
	}
	var admitted uint64
	whole := 0
	for i, s := range seconds {
		switch s.state {
		case up:
			admitted += s.admitted
			whole++
		case down:
			problem(s.refused > 0, "second %d: %d refused while Redis was away", i+1, s.refused)
		}
	}
	mean := float64(admitted) / float64(max(whole, 1))
	problem(math.Abs(mean/limit-1) > off, "%.1f admitted per second while Redis was up, the limit is %d", mean, limit)
	var failed uint64
	latest := 0.0
	for _, l := range loads {
		failed += l.Errors
		latest = max(latest, l.LatencySuccess.Max, l.LatencyLimited.Max)
	}
	problem(failed > 0, "%d requests failed", failed)
	problem(latest > latencyMax, "the latest answer came after %.0f ms", 1e3*latest)
	fmt.Fprintf(out, "\nRedis up, %d whole seconds: %.2f admitted per second by both together (limit %d, %+.2f %%)\n", whole, mean, limit, 100*(mean/limit-1))
	for i, l := range loads {
		fmt.Fprintf(out, "proxy %d: %d sent, statuses %v, %d failed; admitted p50 %.2f p99 %.2f max %.1f ms; generator %s\n", i+1, l.Sent, l.StatusCodes, l.Errors,
			1e3*l.LatencySuccess.P50, 1e3*l.LatencySuccess.P99, 1e3*l.LatencySuccess.Max, l.Verdict)
	}
	if len(problems) > 0 {
		if err := rig.Inconclusive(loads...); err != nil {
			fmt.Fprintln(out, "Not as promised, which proves nothing, as the load was not as planned: "+strings.Join(problems, "; "))
			return err
		}
		return fmt.Errorf("not as promised: %s", strings.Join(problems, "; "))
	}
	fmt.Fprintln(out, "As promised: exact while Redis is up, nothing refused or failed while it is away, limiting again within a second of its return.")
	return nil
}
