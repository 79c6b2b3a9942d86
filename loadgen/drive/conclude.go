package drive

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"weir/internal/data/number"
	"weir/loadgen/profile"
	"weir/loadgen/record"
)

func (c *conductor) conclude() {
	began := time.Duration(c.ticks/ticksPerSecond) * time.Second
	c.gather(true)
	if c.totals.Pending() {
		c.totals.Row(began, c.dueRows.Waiting(c.untilStop(c.plan.Schedule.Length())))
	}
	c.spread()
	c.warn()
	facts, settled := c.facts()
	c.result = c.totals.Result(facts, settled, c.plan.Thresholds)
	last := c.Status()
	last.Running, last.Phase, last.InFlight, last.Connections = false, record.PhaseOver, 0, 0
	last.Elapsed, last.CurrentRps, last.TargetRps = c.result.Elapsed, 0, 0
	last.Verdict, last.Reasons = c.result.Verdict, c.result.Reasons
	c.show(&last)
	c.logEnd()
}

// facts returns the result without counts, and how many requests were due up to LateThreshold before a
// stop.
func (c *conductor) facts() (r record.Result, settled uint64) {
	length := c.plan.Schedule.Length()
	r = record.Result{
		TestID: c.id, Profile: c.plan.ProfileText, URL: c.shown.LimiterURL, StartedAt: c.begun.UTC(),
		Duration: length.Seconds(), Elapsed: length.Seconds(), End: record.EndCompleted,
		TargetRps: c.plan.Schedule.Expected() / length.Seconds(),
		Loops:     c.loops, Connections: record.Connections{Max: c.poolMax, Peak: c.peak},
		LastFault: c.lastFault(), Config: c.shown,
		Shards: []record.Shard{c.plan.Config.Shard}, ScheduleHash: c.plan.ScheduleHash,
	}
	if c.stopped.IsZero() {
		r.Due = c.dueRows.Waiting(length)
		r.TargetRps = float64(r.Due) / length.Seconds() // the actual number, since random arrivals vary
		settled = r.Due
	} else {
		r.End = record.EndStopped
		if length = 0; !c.start.IsZero() {
			length = min(max(0, c.stopped.Sub(c.start)), c.plan.Schedule.Length())
		}
		r.Elapsed = length.Seconds()
		// Each loop continued to send until it received the stop.
		r.Due = c.counts.Started + c.counts.Dropped() + c.counts.Unsent
		settled = min(r.Due, c.settled)
	}
	for _, k := range c.plan.Profile.Peaks(length) {
		r.Peaks = append(r.Peaks, record.Peak{Start: k.Start.Seconds(), End: k.End.Seconds(), Rps: k.RPS})
	}
	return r, settled
}

func (c *conductor) lastFault() string {
	text, _ := c.fault.Load().(string)
	return text
}

func (c *conductor) logEnd() {
	r := c.result
	if r.End == record.EndStopped {
		c.log.Info(fmt.Sprintf("Load test stopped by user after %s. Sent %d requests.", brief(r.Elapsed), r.Sent))
	} else {
		shed := ""
		if r.Shed > 0 {
			shed = fmt.Sprintf("%d shed, ", r.Shed)
		}
		c.log.Info(fmt.Sprintf("Test completed: %d requests sent, %s%d errors, avg latency %s, p95 %s",
			r.Sent, shed, r.Errors, brief(r.Latency.Mean), brief(r.Latency.P95)))
	}
	if r.Verdict != record.Valid {
		c.log.Warn(fmt.Sprintf("Generator %s: %s", strings.ToLower(string(r.Verdict)), strings.Join(r.Reasons, "; ")))
	}
}

// logPeak logs that a peak has started, at most once a second, and of several the last
// one.
func (c *conductor) logPeak(now time.Time) {
	elapsed := c.untilStop(now.Sub(c.start))
	if elapsed < c.peaksQuiet {
		return
	}
	var last profile.Peak
	found := false
	for range peaksPerTick {
		peak, ok := c.plan.Schedule.PeakFrom(c.peaksFrom)
		if !ok || peak.Start > elapsed {
			break
		}
		last, found = peak, true
		c.peaksFrom = peak.Start + 1
	}
	if found {
		c.peaksQuiet = elapsed + time.Second
		c.log.Info(fmt.Sprintf("Burst peak started at t=%ss (target RPS=%s)",
			plain(last.Start.Seconds(), 3), plain(last.RPS, 1)))
	}
}

// peaksPerTick bounds the peaks skipped at a time.
const peaksPerTick = 10_000

// plain formats v with the given number of decimals, without trailing zeros.
func plain(v float64, digits int) string {
	shift := math.Pow10(digits)
	return number.Decimal(math.Round(v*shift) / shift)
}

// brief formats seconds like Go, with three digits: 50ms, 1.25s.
func brief(seconds float64) string {
	d := time.Duration(seconds * float64(time.Second))
	unit := time.Duration(1)
	for d/unit >= 1000 {
		unit *= 10
	}
	return d.Round(unit).String()
}

// warn logs a line about the errors since the last one, with the most frequent reason
// first.
func (c *conductor) warn() {
	type fault struct {
		reason record.Reason
		count  uint64
	}
	var faults []fault
	for r := record.NoError + 1; r < record.Reasons; r++ {
		if n := c.counts.Reason[r] - c.warned.Reason[r]; n > 0 {
			faults = append(faults, fault{r, n})
		}
	}
	c.warned = c.counts
	if len(faults) == 0 {
		return
	}
	slices.SortStableFunc(faults, func(a, b fault) int { return int(b.count) - int(a.count) })
	pairs := []any{"count", faults[0].count}
	for _, f := range faults[1:] {
		pairs = append(pairs, f.reason.String(), f.count)
	}
	if text := c.lastFault(); text != "" &&
		(faults[0].reason == record.ConnectFailed || faults[0].reason == record.TLSFailed) {
		pairs = append(pairs, "last", text)
	}
	c.faults.Warn("Request errors: "+faults[0].reason.Words(), pairs...)
}
