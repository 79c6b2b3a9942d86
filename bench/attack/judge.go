package attack

import (
	"fmt"
	"io"
	"strings"
	"time"

	"weir/bench/report"
	"weir/bench/rig"
)

// ratioMax is how much slower than in the base line the slowest hundredth of
// the good requests may be. It is a remark and no failure: the attackers use
// the same processors.
const ratioMax = 2

// A row is what came of one attack.
type row struct {
	attack *attack
	tally
	load         *rig.Loaded // the good traffic
	usage        rig.Usage   // of the proxy
	attackersCPU time.Duration
	capped       int           // connections that the proxy refused: too many
	left         int           // clients' connections when all should be gone
	gone         time.Duration // from the last connection until none was left
	panics       int
	crash        string // how the proxy ended, when it did not end well
	silent       string // why its metrics were not to be had
	canary       string // why a request after the attack was not answered
}

// failed is how many good requests were not answered 200.
func (r *row) failed() uint64 { return r.load.Sent - min(r.load.Sent, r.load.Success) }

// ratio is the good traffic's p99 by that of the base line.
func (r *row) ratio(base *row) float64 {
	if base.load == nil || r.load == nil || base.load.LatencySuccess.P99 <= 0 {
		return 0
	}
	return r.load.LatencySuccess.P99 / base.load.LatencySuccess.P99
}

// crowdMin is how many attackers at a time it takes to show the memory of each:
// with fewer, the normal growth of the proxy's heap would dominate.
const crowdMin = 100

// perConnection is what an attacker cost in bytes at the worst moment; 0 when
// there were too few to tell.
func (r *row) perConnection() int64 {
	if r.most < crowdMin {
		return 0
	}
	return max(0, r.usage.RSSPeak-r.usage.RSSBefore) / int64(r.most)
}

// expect says what must not be.
func (r *row) expect(e *report.Expectations) {
	say := func(wrong bool, format string, args ...any) {
		e.Never(wrong, "%s: "+format, append([]any{r.attack.name}, args...)...)
	}
	say(r.crash != "", "%s", r.crash)
	if r.load != nil {
		say(r.failed() > 0, "%d of %d good requests failed: by status %v, without an answer %v", r.failed(), r.load.Sent, r.load.StatusCodes, r.load.ErrorsByReason)
		say(r.load.Sent == 0, "no good request was sent")
	}
	say(r.left > 0, "%d attackers were left %.1f s after the last had come, their timeout is %.0f s", r.left, r.gone.Seconds(), r.attack.life.Seconds())
	say(r.panics > 0, "%d faults of the proxy", r.panics)
	say(r.silent != "", "no metrics afterwards: %s", r.silent)
	say(r.canary != "", "a request after the attack was not answered: %s", r.canary)
	say(r.attack.play != nil && r.opened == 0, "nobody attacked")
}

// remarks are what should not be and proves nothing by itself.
func (r *row) remarks(base *row) (list []string) {
	if x := r.ratio(base); x > ratioMax {
		list = append(list, fmt.Sprintf("%s: good p99 is %.1f × the base line, more than %d", r.attack.name, x, ratioMax))
	}
	if r.load != nil && r.load.Verdict == "INVALID" {
		list = append(list, fmt.Sprintf("%s: the generator could not keep its schedule: %s", r.attack.name, strings.Join(r.load.Reasons, "; ")))
	}
	return list
}

// line is the row in a progress line.
func (r *row) line(base *row) string {
	if r.load == nil {
		return r.attack.name + ": " + r.crash
	}
	return fmt.Sprintf("%-14s good p99 %.2f ms (× %.1f), %d failed; %d attackers opened, %d left after %.1f s; answers: %s",
		r.attack.name, 1e3*r.load.LatencySuccess.P99, r.ratio(base), r.failed(), r.opened, r.left, r.gone.Seconds(), r.told())
}

// show prints the table and the verdict. The first row is the base line.
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
				float64(r.usage.KernelPeak)/1e6, r.usage.Cores(), r.attackersCPU.Seconds()/max(r.usage.Over.Seconds(), 1), r.left, r.gone.Seconds(), r.told())
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
	return e.Conclude(out, "no good request failed, every attacker was gone in time, and the proxy was well afterwards.", nil)
}

const explanation = `
"refused" counts connections that the proxy closed because there were too many, and connects that failed. "kB each" is the
growth of the proxy's resident memory at its peak by the attackers at the same time; 0 when they are too few to tell. "kernel MB" is what the buffers of all TCP sockets of the machine held at most. "still there" counts clients' connections that the proxy has when the timeout of the last
one and 2 s have passed; "gone after" is when it had none.

`
