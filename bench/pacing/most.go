package pacing

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"time"

	"weir/bench/report"
	"weir/bench/rig"
)

const (
	mostRounds      = 5
	mostSpan        = 3 * time.Second
	mostConnections = 64
	// overload is how much more than wrk could send our generator is asked for,
	// so that all its connections are busy all the time, as wrk's are.
	overload = 1.5
)

// most is how fast a generator was when it was to be as fast as it can.
type most struct {
	Generator string  `json:"generator"`
	PerSecond float64 `json:"perSecond"`
	// Each is its processor time for a request. One core of it suffices for
	// 1,000,000 / Each requests per second.
	Each float64 `json:"cpuMicrosPerRequest"`
}

// most compares what generators can do at most, with one thread or loop each.
func (l *lab) most() error {
	fmt.Fprintf(l.out, "### At most, one thread or loop, %d connections, our target with one loop\n\n", mostConnections)
	if _, err := exec.LookPath("wrk"); err != nil {
		fmt.Fprintln(l.out, "wrk is not installed: nothing to compare with.")
		return nil
	}
	target, addr, err := rig.StartTargetAt(l.ctx, []string{"EVENT_LOOPS=1"})
	if err != nil {
		return err
	}
	defer func() { _ = target.Stop() }()
	var theirs, mine []most
	for range mostRounds {
		w, err := rig.Wrk{URL: url(addr), Connections: mostConnections, For: mostSpan}.Run(l.ctx)
		if err != nil {
			return err
		}
		o, err := oursAtMost(l.ctx, addr, overload*w.PerSecond)
		if err != nil {
			return err
		}
		theirs, mine = append(theirs, most{"wrk", w.PerSecond, w.CPU.Seconds() * 1e6 / w.Requests}), append(mine, o)
	}
	l.found.Most = append(theirs, mine...)
	rate := func(m most) float64 { return m.PerSecond }
	core := func(m most) float64 { return 1e6 / m.Each }
	table := report.NewTable("| requests/s | CPU µs per request | requests per second of CPU | requests/s: weir loadgen ÷ it | per second of CPU: weir loadgen ÷ it")
	for _, side := range [][]most{theirs, mine} {
		faster, cheaper := "", ""
		if side[0].Generator == "wrk" {
			faster, cheaper = report.RatioOf(mine, theirs, rate).Ratio(2), report.RatioOf(mine, theirs, core).Ratio(2)
		}
		table.Add("%s | %.0f | %.2f | %.0f | %s | %s", side[0].Generator, report.MedianOf(side, rate), report.MedianOf(side, func(m most) float64 { return m.Each }), report.MedianOf(side, core), faster, cheaper)
	}
	fmt.Fprint(l.out, table)
	return nil
}

// oursAtMost asks our generator for more than is possible. What it cannot send
// in time it gives up when the schedule is over, and only what was answered
// until then counts for the rate.
func oursAtMost(ctx context.Context, addr string, rate float64) (most, error) {
	r, err := rig.Load{URL: url(addr), Rate: int(rate), For: mostSpan, Connections: mostConnections, Loops: 1, Timeout: 500 * time.Millisecond}.Run(ctx, nil)
	if err != nil {
		return most{}, err
	}
	answered := float64(r.Completed - r.Errors)
	if answered == 0 {
		return most{}, errors.New("loadgen had no answer")
	}
	return most{"weir loadgen", r.Throughput, r.CPU.Seconds() * 1e6 / answered}, nil
}
