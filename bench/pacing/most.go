package pacing

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"time"

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
		w, err := wrk(l.ctx, addr)
		if err != nil {
			return err
		}
		o, err := oursAtMost(l.ctx, addr, overload*w.PerSecond)
		if err != nil {
			return err
		}
		theirs, mine = append(theirs, w), append(mine, o)
	}
	l.found.Most = append(theirs, mine...)
	rate := func(m most) float64 { return m.PerSecond }
	core := func(m most) float64 { return 1e6 / m.Each }
	row(l.out, "", "requests/s", "CPU µs per request", "requests per second of CPU", "requests/s: weir loadgen ÷ it", "per second of CPU: weir loadgen ÷ it")
	row(l.out, "---", "---", "---", "---", "---", "---")
	for _, side := range [][]most{theirs, mine} {
		cells := []string{side[0].Generator, fmt.Sprintf("%.0f", middle(figures(side, rate))),
			fmt.Sprintf("%.2f", middle(figures(side, func(m most) float64 { return m.Each }))), fmt.Sprintf("%.0f", middle(figures(side, core))), "", ""}
		if side[0].Generator == "wrk" {
			cells[4], cells[5] = ratios(mine, theirs, rate), ratios(mine, theirs, core)
		}
		row(l.out, cells...)
	}
	return nil
}

// ratios is the median of the pairs' ratios with its ends.
func ratios(ours, theirs []most, of func(most) float64) string {
	var all []float64
	for i := range ours {
		all = append(all, of(ours[i])/of(theirs[i]))
	}
	mid := middle(all) // and now they are in order
	return fmt.Sprintf("**%.2f** (%.2f … %.2f)", mid, all[0], all[len(all)-1])
}

// oursAtMost asks our generator for more than is possible. What it cannot send
// in time it gives up when the schedule is over, and only what was answered
// until then counts for the rate.
func oursAtMost(ctx context.Context, addr string, rate float64) (most, error) {
	r, err := loadgen(ctx, map[string]any{
		"limiterUrl": url(addr), "duration": mostSpan.Seconds(), "concurrency": mostConnections,
		"profile":        map[string]any{"type": "constant", "params": map[string]float64{"rps": rate}},
		"requestOptions": map[string]any{"timeout": 0.5},
	}, "-event-loops", "1")
	if err != nil {
		return most{}, err
	}
	answered := float64(r.Completed - r.Errors)
	if answered == 0 {
		return most{}, errors.New("loadgen had no answer")
	}
	return most{"weir loadgen", r.Throughput, r.cpu.Seconds() * 1e6 / answered}, nil
}

var (
	wrkTotal = regexp.MustCompile(`(\d+) requests in `)
	wrkRate  = regexp.MustCompile(`Requests/sec:\s+([\d.]+)`)
)

func wrk(ctx context.Context, addr string) (most, error) {
	cmd := exec.CommandContext(ctx, "wrk", "-t1", "-c"+strconv.Itoa(mostConnections), fmt.Sprintf("-d%ds", int(mostSpan.Seconds())), url(addr))
	out, err := cmd.CombinedOutput()
	if err != nil {
		return most{}, fmt.Errorf("wrk: %w\n%s", err, out)
	}
	total, rate := wrkTotal.FindSubmatch(out), wrkRate.FindSubmatch(out)
	if total == nil || rate == nil {
		return most{}, fmt.Errorf("wrk says something else than expected:\n%s", out)
	}
	n, err1 := strconv.ParseFloat(string(total[1]), 64)
	perSecond, err2 := strconv.ParseFloat(string(rate[1]), 64)
	cpu := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	return most{"wrk", perSecond, cpu.Seconds() * 1e6 / n}, errors.Join(err1, err2)
}
