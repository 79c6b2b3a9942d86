package drive

import (
	"cmp"
	"fmt"
	"time"

	"weir/loadgen/pace"
	"weir/loadgen/record"
)

const (
	// tick is the interval at which senders are asked for their counts, and
	// ticksPerSecond its inverse. Once a second they hand over their histograms.
	tick           = 250 * time.Millisecond
	ticksPerSecond = int(time.Second / tick)
	// warmUpMax plus warmUpEach per connection bounds the wait for the first connections. Dials
	// are faster, but not by much.
	warmUpMax  = time.Second
	warmUpEach = 200 * time.Microsecond
	startAhead = 10 * time.Millisecond // how far ahead the start is set, so that all loops know it before
	stopGrace  = 2 * time.Second       // how long a stopped run waits for answers in flight
)

// A conductor runs one test from its start to its result.
//
// Owned by its goroutine.
type conductor struct {
	*Run
	totals *record.Totals
	spare  []*record.Tally // one per loop, empty
	handed chan handed

	begun   time.Time // on the wall
	start   time.Time
	stopped time.Time // zero: not stopped
	ticks   int       // since the start

	dueRows    pace.LoopSchedule // never taken from; counts the arrivals of the rows of the series
	dueSettled pace.LoopSchedule // never taken from; counts the arrivals that should have been sent
	settled    uint64            // due up to LateThreshold before the stop
	peaksFrom  time.Duration     // peaks from here on have not been logged
	peaksQuiet time.Duration     // no peak is logged before this time

	counts   record.Counts // of the last tick
	metered  record.Counts // already added to the meters
	warned   record.Counts // already logged
	samples  []sample      // of the last second, oldest first
	latency  record.Summary
	lag      record.Summary
	evidence record.ValidityEvidence // of the last second

	inFlight, open, peak int

	lines []byte // scratch, of outcomes
}

// A handed is what one sender returns to the conductor.
type handed struct {
	loop           int
	tally          *record.Tally // nil: counts only
	counts         record.Counts
	inFlight, open int
	peak           int // connections open at the same time
}

// A sample is the number of requests sent at a time.
type sample struct {
	at   time.Time
	sent uint64
}

func newConductor(r *Run) *conductor {
	c := &conductor{
		Run: r, totals: record.NewTotals(), handed: make(chan handed, r.loops), begun: time.Now(),
		dueRows: r.plan.Schedule.ForLoop(0, 1), dueSettled: r.plan.Schedule.ForLoop(0, 1),
	}
	for range r.loops {
		spare := record.NewTally()
		spare.Keep = r.settings.Outcomes != nil
		c.spare = append(c.spare, spare)
	}
	return c
}

func (c *conductor) conduct() {
	defer close(c.done)
	defer c.group.Stop()
	c.log.Info(fmt.Sprintf("Starting load test profile=%s for %g seconds targeting limiterUrl=%s",
		c.plan.ProfileText, c.plan.Schedule.Length().Seconds(), c.shown.LimiterURL))
	for _, w := range c.plan.Warnings {
		c.log.Warn(w)
	}
	if c.waitForStart() {
		c.begin()
	}
	c.follow()
	c.conclude()
}

// waitForStart waits until it is time to start and the first connections are open. It
// returns false if the run was stopped before.
func (c *conductor) waitForStart() bool {
	warmUp := c.warmUp()
	if ahead := time.Until(c.plan.StartAt); ahead > warmUp {
		c.log.Info("Waiting for the start at "+c.plan.StartAt.UTC().Format(time.RFC3339Nano), "in", ahead.Round(time.Second))
	}
	select {
	case <-time.After(time.Until(c.plan.StartAt.Add(-warmUp))):
	case <-c.stop:
	}
	for _, s := range c.senders {
		s.loop.Post(s.warmUp)
	}
	patience := time.After(c.patience(time.Now()))
	for range c.senders {
		select {
		case <-c.warm:
		case <-patience:
			return true
		case <-c.stop:
			return false
		}
	}
	return true
}

// warmUp returns how long the first connections may take.
func (c *conductor) warmUp() time.Duration {
	first := 0
	for i := range c.loops {
		first += c.size(i).Start
	}
	return warmUpMax + time.Duration(first)*warmUpEach
}

// patience returns how long to wait for the first connections from now on. Other generators that
// share the schedule begin at StartAt, so this one must not wait for its connections longer than
// that.
func (c *conductor) patience(now time.Time) time.Duration {
	most := c.warmUp()
	if !c.plan.StartAt.IsZero() {
		most = min(most, max(c.plan.StartAt.Sub(now), warmUpMax))
	}
	return most - 2*startAhead
}

func (c *conductor) begin() {
	start := time.Now().Add(startAhead)
	if wait := time.Until(c.plan.StartAt); wait > startAhead {
		start = time.Now().Add(wait)
	}
	c.start, c.begun = start, start.Round(0)
	for _, s := range c.senders {
		s.loop.Post(func(now time.Time) { s.begin(now, start) })
	}
}

// follow collects the counts of the senders until they have finished.
func (c *conductor) follow() {
	timer := time.NewTimer(time.Until(c.start.Add(tick)))
	defer timer.Stop()
	if c.start.IsZero() {
		timer.Stop() // it was stopped before it began
	}
	stop := c.stop
	var grace <-chan time.Time
	for running := c.loops; running > 0; {
		select {
		case <-timer.C:
			c.collect()
			c.publish(time.Now())
			c.logPeak(time.Now())
			timer.Reset(time.Until(c.start.Add(time.Duration(c.ticks+1) * tick)))
		case <-c.ended:
			running--
		case <-stop:
			stop = nil
			grace = time.After(stopGrace)
			c.cut(time.Now())
		case <-grace:
			for _, s := range c.senders {
				s.loop.Post(s.abandon)
			}
		}
	}
}

func (c *conductor) cut(now time.Time) {
	c.stopped = now
	if !c.start.IsZero() {
		c.settled = c.dueSettled.Waiting(now.Sub(c.start) - record.LateThreshold)
	}
	for _, s := range c.senders {
		s.loop.Post(func(late time.Time) { s.stop(late, now) })
	}
}

// collect gathers the counts of a tick, and once a second the histograms.
func (c *conductor) collect() {
	c.ticks++
	whole := c.ticks%ticksPerSecond == 0
	c.gather(whole)
	if !whole {
		return
	}
	second := time.Duration(c.ticks) * tick
	c.totals.Row(second-time.Second, c.dueRows.Waiting(c.untilStop(second)))
	c.spread()
	c.warn()
}

// gather asks all senders and adds up what they hand over.
func (c *conductor) gather(whole bool) {
	for i, s := range c.senders {
		fresh := c.spare[i]
		s.loop.Post(func(time.Time) {
			h := handed{loop: i, inFlight: s.busy, open: s.pool.Open(), peak: s.peak}
			if whole {
				h.tally, s.tally = s.tally, fresh
			} else {
				h.counts = s.tally.Counts
			}
			c.handed <- h
		})
	}
	var loose record.Counts
	c.inFlight, c.open, c.peak = 0, 0, 0
	for range c.senders {
		h := <-c.handed
		c.inFlight += h.inFlight
		c.open += h.open
		c.peak += h.peak
		if h.tally == nil {
			loose.Add(&h.counts)
			continue
		}
		c.write(h.tally.Kept)
		c.totals.Add(h.tally)
		c.spare[h.loop] = h.tally
	}
	c.counts = c.totals.All().Counts
	c.counts.Add(&loose)
	c.settings.Metrics.count(&c.counts, &c.metered)
	c.metered = c.counts
}

func (c *conductor) write(kept []record.Outcome) {
	c.lines = c.lines[:0]
	for i := range kept {
		c.lines = kept[i].AppendLine(c.lines, c.start)
	}
	if len(c.lines) > 0 {
		_, _ = c.settings.Outcomes.Write(c.lines) // its owner handles errors
	}
}

func (c *conductor) spread() {
	all := c.totals.All()
	c.latency, c.lag, c.evidence = all.Latency().Summary(), all.Lag.Summary(), all.Evidence()
}

// untilStop returns t, or when the run was stopped if that was earlier.
func (c *conductor) untilStop(t time.Duration) time.Duration {
	if !c.stopped.IsZero() {
		t = min(t, c.stopped.Sub(c.start))
	}
	return t
}

func (c *conductor) publish(now time.Time) {
	s := &record.Status{
		Running: true, TestID: c.id, ScheduleHash: c.plan.ScheduleHash, Profile: c.plan.Config.Profile.Type,
		URL: c.shown.LimiterURL, Phase: record.PhaseWaiting,
		Duration: c.plan.Schedule.Length().Seconds(), InFlight: c.inFlight, Connections: c.open,
	}
	s.Verdict = record.Valid
	if at := cmp.Or(c.start, c.plan.StartAt); !at.IsZero() {
		s.StartAt = at.UTC().Format(time.RFC3339Nano)
	}
	if !c.start.IsZero() && !now.Before(c.start) {
		elapsed := now.Sub(c.start)
		s.Phase, s.Elapsed = record.PhaseRunning, elapsed.Seconds()
		s.TargetRps = c.plan.Schedule.Rate(elapsed)
		if !c.stopped.IsZero() || elapsed >= c.plan.Schedule.Length() {
			s.Phase, s.TargetRps = record.PhaseFinishing, 0
		}
		s.CurrentRps = c.currentRps(now)
		c.evidence.Count(&c.counts, c.dueSettled.Waiting(c.untilStop(elapsed-record.LateThreshold)))
		s.Verdict, s.Reasons = c.evidence.Judge()
	}
	c.show(s)
}

func (c *conductor) show(s *record.Status) {
	s.Count(&c.counts, c.latency, c.lag)
	s.Course = c.totals.Course()
	c.status.Store(s)
	c.settings.Metrics.show(s)
}

// currentRps returns the rate of sending over the last second.
func (c *conductor) currentRps(now time.Time) float64 {
	if len(c.samples) > ticksPerSecond {
		c.samples = c.samples[:copy(c.samples, c.samples[1:])]
	}
	c.samples = append(c.samples, sample{now, c.counts.Sent()})
	first := sample{at: c.start}
	if len(c.samples) > ticksPerSecond {
		first = c.samples[0]
	}
	sent := max(c.counts.Sent(), first.sent) // started ones may have turned out unconnected
	return float64(sent-first.sent) / now.Sub(first.at).Seconds()
}
