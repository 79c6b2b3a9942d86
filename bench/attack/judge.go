package attack

import (
	"fmt"
	"io"
	"strings"
	"time"

	"weir/bench/report"
	"weir/bench/rig"
)

// ratioMax bounds the p99 of the good traffic relative to the baseline. More is a remark rather
// than a failure, because the attackers use the same cores.
const ratioMax = 2

// A row is the result of one attack.
type row struct {
	attack *attack
	tally
	load         *rig.Loaded // the good traffic
	usage        rig.Usage   // of the proxy
	attackersCPU time.Duration
	capped       int           // connections that the proxy refused as too many
	left         int           // connections of clients that are left when all should be gone
	gone         time.Duration // from the last new connection until none was left
	panics       int
	crash        string // how the proxy ended, if not normally
	silent       string // why its metrics could not be read
	canary       string // why a request after the attack was not answered
}

// failed returns how many good requests were not answered with 200.
func (r *row) failed() uint64 { return r.load.Attempted() - min(r.load.Attempted(), r.load.Success) }

// ratio returns the p99 of the good traffic relative to the baseline.
func (r *row) ratio(base *row) float64 {
	if base.load == nil || r.load == nil || base.load.LatencySuccess.P99 <= 0 {
		return 0
	}
	return r.load.LatencySuccess.P99 / base.load.LatencySuccess.P99
}

// fleetMin is the least number of attackers at the same time for which memory per attacker is
// shown: with fewer, the normal growth of the proxy's heap would dominate.
const fleetMin = 100

// perConnection returns the proxy's peak memory per attacker in bytes; 0 if there were too few.
func (r *row) perConnection() int64 {
	if r.most < fleetMin {
		return 0
	}
	return max(0, r.usage.RSSPeak-r.usage.RSSBefore) / int64(r.most)
}

func (r *row) expect(e *report.Expectations) {
	say := func(wrong bool, format string, args ...any) {
		e.Never(wrong, "%s: "+format, append([]any{r.attack.name}, args...)...)
	}
	say(r.crash != "", "%s", r.crash)
	if r.load != nil {
		say(r.failed() > 0, "%d of %d good requests failed: by status %v, without an answer %v", r.failed(), r.load.Attempted(), r.load.StatusCodes, r.load.ErrorsByReason)
		say(r.load.Sent == 0, "no good request was sent")
	}
	say(r.left > 0, "%d attackers were left %.1f s after the last one connected; their timeout is %.0f s", r.left, r.gone.Seconds(), r.attack.life.Seconds())
	say(r.panics > 0, "%d faults of the proxy", r.panics)
	say(r.silent != "", "no metrics afterwards: %s", r.silent)
	say(r.canary != "", "a request after the attack was not answered: %s", r.canary)
	say(r.attack.conns > 0 && r.opened == 0, "no attacker connected")
}

// remarks returns what is undesirable but not a failure.
func (r *row) remarks(base *row) (list []string) {
	if x := r.ratio(base); x > ratioMax {
		list = append(list, fmt.Sprintf("%s: good p99 is %.1f × the baseline, more than %d", r.attack.name, x, ratioMax))
	}
	if r.load != nil && r.load.Verdict == "INVALID" {
		list = append(list, fmt.Sprintf("%s: the generator could not keep its schedule: %s", r.attack.name, strings.Join(r.load.Reasons, "; ")))
	}
	return list
}

// line returns the row as a line of progress.
func (r *row) line(base *row) string {
	if r.load == nil {
		return r.attack.name + ": " + r.crash
	}
	return fmt.Sprintf("%-14s good p99 %.2f ms (× %.1f), %d failed; %d attackers opened, %d left after %.1f s; answers: %s",
		r.attack.name, 1e3*r.load.LatencySuccess.P99, r.ratio(base), r.failed(), r.opened, r.left, r.gone.Seconds(), r.summary())
}

// show prints the table and the conclusion. The first row is the baseline.
func show(out io.Writer, rows []*row) error {
	base := rows[0]
	table := report.NewTable("attack | opened | refused | at once | good p50 ms | p99 ms | × base | failed | proxy MB | kB each | kernel MB | cores: proxy | attackers | still there | gone after s | answered")
	var e report.Expectations
	var remarks []string
	for _, r := range rows {
		if r.load != nil {
			l := r.load.LatencySuccess
			table.Add("%s | %d | %d | %d | %.2f | %.2f | %.1f | %d | %.0f | %.1f | %.0f | %.2f | %.2f | %d | %.1f | %s", r.attack.name, r.opened, r.refused+r.capped, r.most,
				1e3*l.P50, 1e3*l.P99, r.ratio(base), r.failed(), float64(r.usage.RSSPeak)/1e6, float64(r.perConnection())/1e3,
				float64(r.usage.KernelPeak)/1e6, r.usage.Cores(), r.attackersCPU.Seconds()/max(r.usage.Over.Seconds(), 1), r.left, r.gone.Seconds(), r.summary())
		}
		r.expect(&e)
		remarks = append(remarks, r.remarks(base)...)
	}
	fmt.Fprintf(out, "\n%v\n", table)
	for _, r := range rows[1:] {
		fmt.Fprintf(out, "%s: %s\n", r.attack.name, r.attack.about)
	}
	fmt.Fprint(out, explanation)
	for _, text := range remarks {
		fmt.Fprintf(out, "Remark: %s\n", text)
	}
	return e.Conclude(out, "no good request failed, every attacker was disconnected in time, and the proxy worked afterwards.", nil)
}

const explanation = `
"refused" counts connections that the proxy closed because there were too many, and failed connects. "kB each" is the
peak growth of the proxy's resident memory divided by the attackers at the same time; 0 if they were too few. "kernel MB" is
the peak size of the buffers of all TCP sockets of the machine. "still there" counts the clients' connections 2 s after the
timeout of the last one; "gone after" is when none was left.

`
