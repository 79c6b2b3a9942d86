package attack

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"weir/bench/lab/result"
	"weir/bench/lab/rig"
	"weir/loadgen/record"
)

// ratioMax bounds the p99 of the good traffic relative to the baseline. More is a remark rather
// than a failure, because the attackers use the same cores, unless a control shows how much that is.
const ratioMax = 2

// p99Min is the p99 of the good traffic, in seconds, that is always allowed: programs that share two cores with the
// attackers wait for the scheduler up to 3 ms at a time.
const p99Min = 5e-3

// baseline is the name of the attack without attackers.
const baseline = "none"

// A row is the result of one attack.
type row struct {
	attack *attack
	scene  *scene
	base   *row // the baseline of its scene; nil for a baseline
	// control is that of its attack; nil: it was not played, or there is none
	control *row
	tally
	load         *rig.LoadResult // the good traffic
	delivered    atomic.Int64    // deferred requests of the good traffic that the target has received
	usage        rig.Usage       // of the proxy
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

// ratio returns the p99 of the good traffic relative to the baseline, or 1 for a baseline; 0 if it is
// unknown.
func (r *row) ratio() float64 {
	base := cmp.Or(r.base, r)
	if base.load == nil || r.load == nil || base.load.LatencySuccess.P99 <= 0 {
		return 0
	}
	return r.load.LatencySuccess.P99 / base.load.LatencySuccess.P99
}

// allowed returns what the p99 of the good traffic may be at most: ratioMax times what it is in the baseline, or beside
// the control, which costs the machine as much without the means of the attack, or p99Min. ok is false if the control
// was not played.
func (r *row) allowed() (p99 float64, ok bool) {
	if r.control == nil || r.control.load == nil || r.base.load == nil || r.load == nil {
		return 0, false
	}
	return max(p99Min, ratioMax*max(r.base.load.LatencySuccess.P99, r.control.load.LatencySuccess.P99)), true
}

// slow reports whether the p99 is more than allowed.
func (r *row) slow() bool {
	p99, ok := r.allowed()
	return ok && r.load.LatencySuccess.P99 > p99
}

// middle returns the row with the median p99, because the machine may have been busy during one play. A row that shows
// another fault comes first.
func middle(rows ...*row) *row {
	slices.SortFunc(rows, func(a, b *row) int { return cmp.Compare(a.load.LatencySuccess.P99, b.load.LatencySuccess.P99) })
	for _, r := range rows {
		if r.crash != "" || r.failed() > 0 || r.left > 0 || r.panics > 0 || r.silent != "" || r.canary != "" {
			return r
		}
	}
	return rows[len(rows)/2]
}

// findControl sets the control, which is one of rows or the baseline.
func (r *row) findControl(rows []*row) {
	for _, c := range append([]*row{r.base}, rows...) {
		if c != nil && c.scene == r.scene && c.attack.name == r.attack.control {
			r.control = c
		}
	}
}

// kept returns the success of the good client relative to the baseline.
func (r *row) kept() float64 {
	if r.load == nil || r.base.load == nil {
		return 0
	}
	return r.success() / r.base.success()
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

// The memory of the proxy may grow by what its heap needs anyway, by a mebibyte for each attacker, and by half of one
// for each response in progress.
const (
	heapGrowth       = 32 << 20
	attackerBytesMax = 1 << 20
	responseBytesMax = 512 << 10
)

// memoryMax returns by how much the proxy's memory may grow, in bytes.
func (r *row) memoryMax() int64 {
	if !r.scene.bounded {
		return math.MaxInt64
	}
	return heapGrowth + int64(r.most)*(attackerBytesMax+responseBytesMax*int64(r.attack.streams))
}

func (r *row) expect(e *result.Expectations) {
	say := func(wrong bool, format string, args ...any) {
		e.Never(wrong, "%s: "+format, append([]any{r.attack.name}, args...)...)
	}
	say(r.crash != "", "%s", r.crash)
	switch {
	case r.attack.goal > 0:
		e.AtLeast(r.attack.name+": success of the good client in % of the baseline", 100*r.kept(), 100*r.attack.goal)
	case r.load != nil:
		say(r.failed() > 0, "%d of %d good requests failed: by status %v, without an answer %v", r.failed(),
			r.load.Attempted(), r.load.StatusCodes, r.load.ErrorsByReason)
	}
	if p99, ok := r.allowed(); ok {
		e.AtMost(r.attack.name+": good p99 in ms", 1e3*r.load.LatencySuccess.P99, 1e3*p99)
	}
	say(r.load != nil && r.load.Sent == 0, "no good request was sent")
	say(r.left > 0 && r.attack.goal == 0,
		"%d attackers were left %.1f s after the last one connected; their timeout is %.0f s", r.left, r.gone.Seconds(),
		r.attack.life.Seconds())
	grown := r.usage.RSSPeak - r.usage.RSSBefore
	say(grown > r.memoryMax(), "the proxy's memory grew by %d MiB, more than %d", grown>>20, r.memoryMax()>>20)
	say(r.panics > 0, "%d faults of the proxy", r.panics)
	say(r.silent != "", "no metrics afterwards: %s", r.silent)
	say(r.canary != "", "a request after the attack was not answered: %s", r.canary)
	say(r.attack.conns > 0 && r.opened == 0, "no attacker connected")
}

// remarks returns what is undesirable but not a failure.
func (r *row) remarks() (list []string) {
	_, judged := r.allowed()
	if x := r.ratio(); x > ratioMax && r.attack.goal == 0 && !judged {
		list = append(list, fmt.Sprintf("%s: good p99 is %.1f × the baseline, more than %d", r.attack.name, x, ratioMax))
	}
	if r.load != nil && r.load.Verdict == record.Invalid {
		list = append(list, fmt.Sprintf("%s: the generator could not keep its schedule: %s", r.attack.name,
			strings.Join(r.load.Reasons, "; ")))
	}
	return list
}

// line returns the row as a line of progress.
func (r *row) line() string {
	switch {
	case r.load == nil:
		return r.attack.name + ": " + r.crash
	case r.attack.goal > 0:
		return fmt.Sprintf("%-16s good client %.1f %% of the baseline, goal %.0f %%: %s; %d attackers opened; answers: %s",
			r.attack.name, 100*r.kept(), 100*r.attack.goal, answers(r.load), r.opened, r.summary())
	}
	return fmt.Sprintf(
		"%-16s good p99 %.2f ms (× %.1f), %d failed; %d attackers opened, %d left after %.1f s; answers: %s",
		r.attack.name, 1e3*r.load.LatencySuccess.P99, r.ratio(), r.failed(), r.opened, r.left, r.gone.Seconds(), r.summary())
}

// show prints the tables and the conclusion.
func show(l *rig.Lab, rows []*row) {
	onShare := func(r *row) bool { return r.attack.goal > 0 }
	if costs := slices.DeleteFunc(slices.Clone(rows), onShare); len(costs) > 0 {
		showCosts(l.Report, costs)
	}
	if shares := slices.DeleteFunc(slices.Clone(rows), func(r *row) bool { return !onShare(r) }); len(shares) > 0 {
		showShares(l.Report, shares)
	}
	var wrong []*rig.LoadResult // of rows that missed their goal
	faults := 0                 // that a busy machine does not explain
	for _, r := range rows {
		r.findControl(rows)
		before := len(l.Missed())
		r.expect(&l.Expectations)
		switch missed := len(l.Missed()) - before; {
		case missed == 1 && (r.slow() || onShare(r) && r.load != nil && r.kept() < r.attack.goal):
			wrong = append(wrong, r.load)
		default:
			faults += missed
		}
		for _, text := range r.remarks() {
			l.Note("Remark: %s", text)
		}
	}
	var doubt error
	if faults == 0 && len(wrong) > 0 {
		doubt = rig.InconclusiveFailures(wrong)
	}
	l.Conclude("the good traffic was served, every attacker was disconnected in time, and the proxy worked afterwards.",
		doubt)
}

// showCosts prints the attacks that hold connections or send expensive messages.
func showCosts(out *result.Report, rows []*row) {
	table := result.NewTable("attack | opened | refused | at once | good p50 ms | p99 ms | × base | failed | proxy MB " +
		"| kB each | kernel MB | cores: proxy | attackers | still there | gone after s | answered")
	for _, r := range append([]*row{rows[0].base}, rows...) {
		if r.load != nil {
			l := r.load.LatencySuccess
			table.Add("%s | %d | %d | %d | %.2f | %.2f | %.1f | %d | %.0f | %.1f | %.0f | %.2f | %.2f | %d | %.1f | %s",
				r.attack.name, r.opened, r.refused+r.capped, r.most,
				1e3*l.P50, 1e3*l.P99, r.ratio(), r.failed(), float64(r.usage.RSSPeak)/1e6, float64(r.perConnection())/1e3,
				float64(r.usage.KernelPeak)/1e6, r.usage.Cores(), r.attackersCPU.Seconds()/max(r.usage.Over.Seconds(), 1),
				r.left, r.gone.Seconds(), r.summary())
		}
	}
	good := rows[0].scene.good
	out.Heading("Expensive connections and messages")
	out.Table(table)
	out.Note("%d good requests per second for %v, during each attack, on a separate proxy. Settings: %s; all others are "+
		"defaults.", good.Rate, good.For, strings.Join(rows[0].scene.settings, " "))
	out.Note("%s", about(rows))
	out.Note(explanation)
}

// showShares prints the attacks on what all clients share.
func showShares(out *result.Report, rows []*row) {
	table := result.NewTable("attack | good client alone % | beside attackers % | of that % | goal % | p50 ms | p99 ms " +
		"| answered | attackers opened | at once | answered")
	for _, r := range rows {
		if r.load != nil && r.base.load != nil {
			l := r.load.LatencySuccess
			table.Add("%s | %.1f | %.1f | %.1f | %.0f | %.2f | %.2f | %s | %d | %d | %s", r.attack.name,
				100*r.base.success(), 100*r.success(), 100*r.kept(), 100*r.attack.goal,
				1e3*l.P50, 1e3*l.P99, answers(r.load), r.opened, r.most, r.summary())
		}
	}
	out.Heading("More than a share")
	out.Table(table)
	out.Note("%s", about(rows))
	out.Note(explanationShares)
}

// answers describes how the requests of a load were answered.
func answers(l *rig.LoadResult) string {
	words := tally{answers: make(map[int]int)}
	for _, o := range l.Outcomes {
		words.answers[o.Status]++
	}
	return words.summary()
}

func about(rows []*row) string {
	return strings.Join(result.Map(rows, func(r *row) string { return r.attack.name + ": " + r.attack.about }), "\n")
}

const explanation = `"refused" counts connections that the proxy closed because there were too many, and failed
connects. "kB each" is the peak growth of the proxy's resident memory divided by the attackers at the same time; 0 if
they were too few. "kernel MB" is the peak size of the buffers of all TCP sockets of the machine. "still there" counts
the clients' connections 2 s after the timeout of the last one; "gone after" is when none was left. For attacks by
HTTP/2 the good p99 may be twice the larger one of those without attackers and beside the control: for floods h1-flood,
for answers that are not read h1-stuck-read; or 5 ms. If it is more, the attack is played twice more, and the median
counts.`

const explanationShares = `The success of a good client: the share of its requests that are answered 200 within a
second; for the attacks on the queue, the share of the requests refused by the limit that are stored and delivered.
Alone, and from a second after the attackers have come, on separate proxies. "closed" counts requests without an answer.`
