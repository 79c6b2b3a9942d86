package rig

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// A Wrk is a closed loop of requests to a URL, made by wrk with one thread. It measures the
// maximum throughput.
type Wrk struct {
	URL         string
	Connections int
	For         time.Duration
	Script      string // Lua that makes the requests; empty: GET URL
	Header      string // a field of each request; empty for none
}

// A WrkRun is the result of a run of wrk.
type WrkRun struct {
	Requests  float64
	PerSecond float64
	P50       time.Duration
	Failed    int           // answers with a status above 399, and socket errors
	CPU       time.Duration // of wrk itself
}

// Expect checks that no request failed or, if refused, that nearly all were refused.
func (r WrkRun) Expect(refused bool) error {
	if got := float64(r.Failed) / max(r.Requests, 1); refused && got < 0.99 || !refused && got > 0 {
		return fmt.Errorf("%.1f %% of its answers are not 2xx, so the comparison is not valid", 100*got)
	}
	return nil
}

// Turns runs n sides in turn and returns the runs of each. The order is reversed in every other
// round, so that slow changes of the machine affect all sides alike.
func Turns[R any](rounds, n int, run func(side int) R) [][]R {
	runs := make([][]R, n)
	for round := range rounds {
		for i := range runs {
			if round%2 == 1 {
				i = n - 1 - i
			}
			runs[i] = append(runs[i], run(i))
		}
	}
	return runs
}

// Run runs wrk to its end.
func (w Wrk) Run(ctx context.Context) (WrkRun, error) {
	args := []string{"-t1", "-c" + strconv.Itoa(w.Connections), "-d" + strconv.Itoa(int(w.For.Seconds())) + "s", "--latency"}
	if w.Script != "" {
		dir, err := os.MkdirTemp("", "weir-wrk-")
		if err != nil {
			return WrkRun{}, err
		}
		defer os.RemoveAll(dir)
		file := filepath.Join(dir, "wrk.lua")
		if err := os.WriteFile(file, []byte(w.Script), 0o600); err != nil {
			return WrkRun{}, err
		}
		args = append(args, "-s", file)
	}
	if w.Header != "" {
		args = append(args, "-H", w.Header)
	}
	cmd := exec.CommandContext(ctx, "wrk", append(args, w.URL)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return WrkRun{}, fmt.Errorf("wrk %s: %w\n%s", w.URL, err, out)
	}
	r, err := parseWrk(string(out))
	r.CPU = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	return r, err
}

var (
	wrkTotal  = regexp.MustCompile(`(\d+) requests in `)
	wrkRate   = regexp.MustCompile(`Requests/sec:\s+([\d.]+)`)
	wrkMedian = regexp.MustCompile(`50%\s+([\d.]+)(us|ms|s)`)
	wrkBad    = regexp.MustCompile(`Non-2xx or 3xx responses: (\d+)`)
	wrkErrors = regexp.MustCompile(`Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)`)
)

func parseWrk(text string) (r WrkRun, err error) {
	total, rate, median := wrkTotal.FindStringSubmatch(text), wrkRate.FindStringSubmatch(text), wrkMedian.FindStringSubmatch(text)
	if total == nil || rate == nil || median == nil {
		return r, fmt.Errorf("parse the output of wrk:\n%s", text)
	}
	var errs [3]error
	r.Requests, errs[0] = strconv.ParseFloat(total[1], 64)
	r.PerSecond, errs[1] = strconv.ParseFloat(rate[1], 64)
	r.P50, errs[2] = time.ParseDuration(median[1] + strings.Replace(median[2], "us", "µs", 1))
	if bad := wrkBad.FindStringSubmatch(text); bad != nil {
		r.Failed, _ = strconv.Atoi(bad[1])
	}
	if bad := wrkErrors.FindStringSubmatch(text); bad != nil {
		for _, n := range bad[1:] {
			count, _ := strconv.Atoi(n)
			r.Failed += count
		}
	}
	return r, errors.Join(errs[:]...)
}
