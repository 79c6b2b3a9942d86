package speed

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"time"

	"weir/bench/rig"
)

// A wrkRun is what one run of wrk says.
type wrkRun struct {
	requests float64
	perSec   float64
	p50      time.Duration
	failed   int // answers beyond 399, or socket errors
}

// wrk drives a URL as fast as it can over connections for a time. wrk is a
// closed loop: what it is good for is the largest throughput.
// script, if any, is a file in Lua that makes the requests.
func wrk(ctx context.Context, url string, connections int, script string, span time.Duration) (wrkRun, error) {
	args := []string{"-t1", "-c" + strconv.Itoa(connections), "-d" + strconv.Itoa(int(span.Seconds())) + "s", "--latency"}
	if script != "" {
		args = append(args, "-s", script)
	}
	out, err := exec.CommandContext(ctx, "wrk", append(args, url)...).CombinedOutput()
	if err != nil {
		return wrkRun{}, fmt.Errorf("wrk %s: %w\n%s", url, err, out)
	}
	return parseWrk(string(out))
}

var (
	wrkTotal  = regexp.MustCompile(`(\d+) requests in `)
	wrkRate   = regexp.MustCompile(`Requests/sec:\s+([\d.]+)`)
	wrkMedian = regexp.MustCompile(`50%\s+([\d.]+)(us|ms|s)`)
	wrkBad    = regexp.MustCompile(`Non-2xx or 3xx responses: (\d+)`)
	wrkErrors = regexp.MustCompile(`Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)`)
)

func parseWrk(text string) (r wrkRun, err error) {
	total, rate, median := wrkTotal.FindStringSubmatch(text), wrkRate.FindStringSubmatch(text), wrkMedian.FindStringSubmatch(text)
	if total == nil || rate == nil || median == nil {
		return r, fmt.Errorf("wrk says something else than expected:\n%s", text)
	}
	var errs [3]error
	r.requests, errs[0] = strconv.ParseFloat(total[1], 64)
	r.perSec, errs[1] = strconv.ParseFloat(rate[1], 64)
	r.p50, errs[2] = time.ParseDuration(median[1] + strings.Replace(median[2], "us", "µs", 1))
	if bad := wrkBad.FindStringSubmatch(text); bad != nil {
		r.failed, _ = strconv.Atoi(bad[1])
	}
	if bad := wrkErrors.FindStringSubmatch(text); bad != nil {
		for _, n := range bad[1:] {
			count, _ := strconv.Atoi(n)
			r.failed += count
		}
	}
	return r, errors.Join(errs[:]...)
}

// A contestant is a server under load.
type contestant struct {
	name    string
	url     string
	process *rig.Process
}

// A sample is one run against a contestant.
type sample struct {
	requests float64
	perSec   float64
	cpu      time.Duration // of the contestant, per request
	p50      time.Duration
	failed   int
}

// sample drives the contestant for a time.
func (c contestant) sample(ctx context.Context, connections int, span time.Duration) (sample, error) {
	return c.scripted(ctx, connections, span, "")
}

// scripted is sample with requests that a script makes.
func (c contestant) scripted(ctx context.Context, connections int, span time.Duration, script string) (sample, error) {
	before, err := rig.CPU(c.process.Pid())
	if err != nil {
		return sample{}, err
	}
	run, err := wrk(ctx, c.url, connections, script, span)
	if err != nil {
		return sample{}, err
	}
	after, err := rig.CPU(c.process.Pid())
	if err != nil {
		return sample{}, err
	}
	return sample{requests: run.requests, perSec: run.perSec, cpu: time.Duration(float64(after-before) / run.requests), p50: run.p50, failed: run.failed}, nil
}
