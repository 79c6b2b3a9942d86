package rig

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"time"
)

// A Wrk is a closed loop of requests to a URL, made by wrk with one thread, or of requests by HTTP/2 and calls by gRPC,
// made by h2load. It measures the maximum throughput.
type Wrk struct {
	URL         string
	Connections int
	For         time.Duration
	Script      string // Lua that makes the requests; empty: GET URL
	Header      string // a field of each request; empty for none
	Message     []byte // of calls by gRPC, with Streams; nil: the requests are not calls
	Streams     int    // streams per HTTP/2 connection, of Connections in all; 0: HTTP/1.1
	Rate        int    // requests per second that are sent by HTTP/2; 0: as many as are answered
	Program     string // a program with wrk's arguments and output; empty: wrk
}

// A WrkRun is the result of a run of wrk.
type WrkRun struct {
	Requests  float64
	PerSecond float64
	P50, P99  time.Duration // by wrk P50 only; by h2load, from sending a request, only with a Rate
	Failed    int           // answers with a status above 399, and socket errors; a call is not one, whatever its code
	CPU       time.Duration // of wrk itself
}

// Alternate runs n sides in turn and returns the runs of each. The order is reversed in every other
// round, so that slow changes of the machine affect all sides alike.
func Alternate[R any](rounds, n int, run func(side int) R) [][]R {
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

// Run runs wrk to its end. It ends the current Catch if that fails.
func (w Wrk) Run(ctx context.Context) WrkRun {
	if w.Streams > 0 {
		return w.runHTTP2(ctx)
	}
	args := []string{"-t1", "-c" + strconv.Itoa(w.Connections), "-d" + strconv.Itoa(int(w.For.Seconds())) + "s",
		"--latency"}
	if w.Script != "" {
		dir := Must(os.MkdirTemp("", "weir-wrk-"))
		defer os.RemoveAll(dir)
		file := filepath.Join(dir, "wrk.lua")
		Check(os.WriteFile(file, []byte(w.Script), 0o600))
		args = append(args, "-s", file)
	}
	if w.Header != "" {
		args = append(args, "-H", w.Header)
	}
	return w.run(ctx, cmp.Or(w.Program, "wrk"), args, parseWrk)
}

// run runs a program to its end, and reads what it has printed.
func (w Wrk) run(ctx context.Context, program string, args []string, parse func(string) (WrkRun, error)) WrkRun {
	cmd := exec.CommandContext(ctx, program, append(args, w.URL)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		Check(fmt.Errorf("%s %s: %w\n%s", program, w.URL, err, out))
	}
	r := Must(parse(string(out)))
	r.CPU = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	return r
}

var (
	wrkTotal  = regexp.MustCompile(`(\d+) requests in `)
	wrkRate   = regexp.MustCompile(`Requests/sec:\s+([\d.]+)`)
	wrkMedian = regexp.MustCompile(`50%\s+([\d.]+)(us|ms|s)`)
	wrkBad    = regexp.MustCompile(`Non-2xx or 3xx responses: (\d+)`)
	wrkErrors = regexp.MustCompile(`Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)`)
)

func parseWrk(text string) (r WrkRun, err error) {
	total, rate, median := wrkTotal.FindStringSubmatch(text), wrkRate.FindStringSubmatch(text),
		wrkMedian.FindStringSubmatch(text)
	if total == nil || rate == nil || median == nil {
		return r, fmt.Errorf("parse the output of wrk:\n%s", text)
	}
	var errs [3]error
	r.Requests, errs[0] = strconv.ParseFloat(total[1], 64)
	r.PerSecond, errs[1] = strconv.ParseFloat(rate[1], 64)
	r.P50, errs[2] = time.ParseDuration(median[1] + median[2])
	for _, n := range slices.Concat(wrkBad.FindStringSubmatch(text), wrkErrors.FindStringSubmatch(text)) {
		count, _ := strconv.Atoi(n) // 0 for a whole match
		r.Failed += count
	}
	return r, errors.Join(errs[:]...)
}

// A ComparedProgram is a program that wrk loads as fast as it answers.
type ComparedProgram struct {
	Name    string
	Addr    string   // where it serves; empty if only Wrk needs it
	Wrk     Wrk      // the load; Measurement sets its connections and duration
	Process *Process // whose CPU time and memory are measured; nil for none
	Redis   *Redis   // that it uses; nil for none
	Own     string   // address of its metrics, for the commands of its store; empty for none
	Refuses bool     // nearly all answers should be refusals; otherwise none may be
}

// A Measurement is one run against a ComparedProgram.
type Measurement struct {
	Requests, PerSecond float64
	P50, P99            float64 // latency in µs
	CPU                 float64 // µs of its CPU time per request
	Redis               float64 // µs of its Redis' CPU time per request
	Commands            float64 // store commands per request
	Resident            float64 // peak resident memory, MB
}

// PerSecond is, as the functions that follow, a figure that comparisons use.
func PerSecond(s Measurement) float64          { return s.PerSecond }
func P50(s Measurement) float64                { return s.P50 }
func P99(s Measurement) float64                { return s.P99 }
func CPUPerRequest(s Measurement) float64      { return s.CPU }
func RedisCPUPerRequest(s Measurement) float64 { return s.Redis }
func CommandsPerRequest(s Measurement) float64 { return s.Commands }
func ResidentMemory(s Measurement) float64     { return s.Resident }

// Compare loads each of all for a span per round, in turn, and returns the runs of each.
func (l *Lab) Compare(all []ComparedProgram, rounds, connections int, span time.Duration) [][]Measurement {
	return Alternate(rounds, len(all), func(i int) Measurement { return all[i].Measure(l.Ctx, connections, span) })
}

// Measure loads the program for a span.
func (c *ComparedProgram) Measure(ctx context.Context, connections int, span time.Duration) (s Measurement) {
	Section(c.Name, func() { s = c.sample(ctx, connections, span) })
	return s
}

func (c *ComparedProgram) sample(ctx context.Context, connections int, span time.Duration) Measurement {
	cpuBefore, commandsBefore := c.spent(ctx)
	w := c.Wrk
	w.Connections, w.For = connections, span
	var r WrkRun
	var used Usage
	run := func() { r = w.Run(ctx) }
	if c.Process == nil {
		run()
	} else {
		MeasureUsage(c.Process.Pid(), &used, run)
	}
	if failed := float64(r.Failed) / max(r.Requests, 1); c.Refuses && failed < 0.99 || !c.Refuses && failed > 0 {
		Check(fmt.Errorf("%.1f %% of its answers are not 2xx, so the comparison is not valid", 100*failed))
	}
	cpu, commands := c.spent(ctx)
	us := func(d time.Duration) float64 { return 1e6 * d.Seconds() }
	each := func(d time.Duration) float64 { return us(d) / max(r.Requests, 1) }
	return Measurement{Requests: r.Requests, PerSecond: r.PerSecond, P50: us(r.P50), P99: us(r.P99), CPU: each(used.CPU),
		Redis: each(cpu - cpuBefore), Commands: (commands - commandsBefore) / max(r.Requests, 1),
		Resident: float64(used.RSSPeak) / 1e6}
}

// spent returns the CPU time of the program's Redis and the commands of its store so far.
func (c *ComparedProgram) spent(ctx context.Context) (cpu time.Duration, commands float64) {
	if c.Redis != nil {
		cpu = Must(CPU(c.Redis.Pid()))
	}
	if c.Own != "" {
		commands = Must(Scrape(ctx, c.Own)).Sum("ratelimiter_store_commands_total")
	}
	return cpu, commands
}
