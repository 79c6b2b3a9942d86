package scenario

import (
	"fmt"
	"io"
	"strings"
	"time"

	"weir/bench/lab/result"
	"weir/bench/lab/rig"
)

// A trial plays a constant load, possibly with troubles, and counts every second.
type trial struct {
	rig.Topology
	rate     int             // requests per second to each proxy
	seconds  int             // how long
	events   []FaultEvent    // at whole seconds
	show     func(s *second) // is called after each second; may be nil
	progress io.Writer       // of the load; may be nil
}

// A second holds the counts between two readings.
type second struct {
	n                 int // the first is 1
	admitted, refused uint64
	modes             string // of the proxies
	trouble           string // played after it; empty for none
}

// An outcome is the outcome of a trial.
type outcome struct {
	loads   []*rig.LoadResult // by proxy
	seconds []second
	events  []FaultEvent // at these times from the start of the load
}

// run plays the trial, whose programs end with it.
func (t trial) run(l *rig.Lab) *outcome {
	st, o := &stage{Lab: l, Rig: l.Rig(t.Topology)}, new(outcome)
	loads := make([]rig.Load, len(st.Proxies))
	for i := range loads {
		loads[i] = rig.Load{URL: st.URL(i), Rate: t.rate, For: time.Duration(t.seconds) * time.Second, Progress: t.progress}
	}
	began := time.Now()
	o.loads = st.During(func() { st.watch(&t, o, began) }, loads...)
	for i := range o.events {
		o.events[i].At -= o.loads[0].StartedAt.Sub(began)
	}
	l.End()
	return o
}

// watch reads the counters once in each second of the clock and plays the troubles.
func (st *stage) watch(t *trial, o *outcome, began time.Time) {
	var before second
	st.Seconds(t.seconds-1, func(n int) {
		now := st.count()
		if now.admitted < before.admitted { // a restarted target counts from zero
			before.admitted = 0
		}
		s := second{n: n, admitted: now.admitted - before.admitted, refused: now.refused - before.refused, modes: now.modes}
		before = now
		for _, event := range t.events {
			if event.At == time.Duration(n)*time.Second {
				s.trouble = event.Name
				o.events = append(o.events, st.do(event.Name, began))
			}
		}
		o.seconds = append(o.seconds, s)
		if t.show != nil {
			t.show(&s)
		}
	})
}

// count returns the counts of the programs so far; that of a killed target is zero.
func (st *stage) count() (s second) {
	if !st.Target.Ended() {
		s.admitted = st.Served(st.TargetAddr)
	}
	var modes []string
	for _, addr := range st.ProxyAddrs {
		samples := st.Scrape(addr)
		s.refused += uint64(samples.Sum("ratelimiter_requests_total", `decision="rejected"`))
		for _, m := range []string{"normal", "failopen", "local", "closed"} {
			if samples.Sum("ratelimiter_mode", `type="`+m+`"`) == 1 {
				modes = append(modes, m)
			}
		}
	}
	s.modes = strings.Join(modes, ", ")
	return s
}

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
func Accuracy(l *rig.Lab) {
	l.Note("%d/s through a limit of %d/s, %d s each, GATE=off; counted at the target over whole seconds after %d s",
		2*limit, limit, accuracySeconds, accuracyFrom)
	l.Head("algorithm", "sent", "admitted", "refused", "failed", "target: per second", "off by", "generator")
	var wrong []*rig.LoadResult
	for _, a := range []string{"fixed", "sliding", "token"} {
		o := trial{rate: 2 * limit, seconds: accuracySeconds,
			Topology: rig.Topology{Proxy: []string{"GATE=off", "RATE_LIMIT_ALGORITHM=" + a,
				fmt.Sprintf("RATE_LIMIT_LIMIT=%d", limit), fmt.Sprintf("RATE_LIMIT_CAPACITY=%d", limit),
				fmt.Sprintf("RATE_LIMIT_FILL_RATE=%d", limit)}}}.run(l)
		load, off := o.loads[0], o.off()
		l.Add("%s | %d | %d | %d | %d | %.2f | %+.3f %% | %s, lag p99 %.0f µs", a, load.Sent, load.Success,
			load.RateLimited, load.Errors, limit*(1+off), 100*off, load.Verdict, 1e6*load.Lag.P99)
		before := len(l.Missed())
		if o.exact(&l.Expectations, a); len(l.Missed()) > before {
			wrong = append(wrong, load)
		}
	}
	l.Conclude("each limit was kept within half a percent, and no request was lost.", rig.InconclusiveFailures(wrong))
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
func (o *outcome) exact(e *result.Expectations, algorithm string) {
	l, off := o.loads[0], o.off()
	e.AtMost(algorithm+": relative deviation from the limit", off, offMax)
	e.AtLeast(algorithm+": relative deviation from the limit", off, -offMax)
	e.Never(l.Errors > 0, "%s: %d requests failed", algorithm, l.Errors)
	e.Never(l.Attempted() != l.Success+l.RateLimited, "%s: of %d requests %d were answered", algorithm, l.Attempted(),
		l.Success+l.RateLimited)
}

const (
	outageRate = 2000
	goodAgain  = time.Second // from the target's return until requests must succeed again
)

// Outage kills and restarts the target under load, and prints the answers in each second. It
// fails if there is an answer other than 200 or 502, a failure outside the outage, or a request
// without an answer.
func Outage(l *rig.Lab) {
	t := trial{rate: outageRate, seconds: 14, progress: l,
		Topology: rig.Topology{Proxy: []string{"RATE_LIMIT_LIMIT=1000000"}},
		events:   []FaultEvent{{4 * time.Second, killTarget}, {8 * time.Second, restartTarget}}}
	l.Note("%d/s for %d s through a proxy whose limit is never reached; the target is killed at %v and restarted "+
		"at %v", t.rate, t.seconds, t.events[0].At, t.events[1].At)
	t.run(l).showOutage(l)
}

// showOutage prints and checks the seconds. A row counts requests by when they were done, so
// each second that overlaps the outage may contain failures.
func (o *outcome) showOutage(lab *rig.Lab) {
	l, gone, back := o.loads[0], o.events[0].At, o.events[1].At
	lab.Note("the target was down from %.2f s to %.2f s", gone.Seconds(), back.Seconds())
	lab.Head("second", "answered 200", "failed", "p99 ms")
	for _, row := range l.Series.Rows {
		lab.Add("%.0f | %d | %d | %.1f", row.T, row.Success, row.Errors, 1e3*row.LatencyP99)
		from := time.Duration(row.T * float64(time.Second))
		during := from+time.Second >= gone && from < back+goodAgain
		lab.Never(row.Errors > 0 && !during, "%d failures in second %.0f", row.Errors, row.T)
	}
	lab.Note("answers by status: %v; without an answer: %v", l.StatusCodes, l.ErrorsByReason)
	for status := range l.StatusCodes {
		lab.Never(status != "200" && status != "502", "answers with status %s", status)
	}
	n := l.Attempted() - l.Success - l.StatusCodes["502"]
	lab.Never(n > 0, "%d requests without an answer", n)
	// Requests during the outage, and those in flight at its start.
	most := uint64(outageRate*(back-gone+goodAgain).Seconds()) + outageRate/10
	lab.Never(l.Errors > most, "%d failures, at most %d were due to the outage", l.Errors, most)
	lab.Conclude("only requests during the outage failed, with an immediate 502, and requests succeeded "+
		"again within a second of its end.", rig.Inconclusive(l))
}
