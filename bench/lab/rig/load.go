package rig

import (
	"bufio"
	"cmp"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/goccy/go-json"

	"weir/bench/lab/result"
	"weir/internal/program/service"
	"weir/internal/test/process"
	"weir/loadgen/record"
)

// A Load is a run of our load generator.
type Load struct {
	URL           string
	Rate          int // requests per second
	For           time.Duration
	Steps         []RateStep    // rates one after the other; none: Rate for For
	Protocol      string        // as in a plan; empty: the generator's default
	Connections   int           // 0: the generator's default
	Loops         int           // event loops; 0: the generator's default
	From          time.Time     // when the generator is started; zero: at once
	StartAt       time.Time     // when the schedule begins; zero: as soon as possible
	Seed          int64         // of random arrivals
	Arrivals      string        // the arrival process; empty: uniform
	Shard, Shards int           // index of this generator among those that share a schedule; 0 Shards: the only one
	Timeout       time.Duration // of a request; zero: the generator's default
	Body          string        // JSON to POST; empty: GET requests
	Headers       map[string]string
	Outcomes      bool      // fill in LoadResult.Outcomes
	Progress      io.Writer // gets lines of progress; nil: none
}

// A RateStep is a constant rate for a time.
type RateStep struct {
	For  time.Duration
	Rate float64 // requests per second
}

// An Outcome is the outcome of one request. Times count from the start of the schedule.
type Outcome struct {
	Due, Done time.Duration
	Status    int // of the answer; 0 if there was none
}

// LoadResult is the result of a Load.
type LoadResult struct {
	record.Result
	CPU      time.Duration // of the generator
	Outcomes []Outcome     // of all requests in the order of their ends, if the Load asked for them
}

// Within returns how many requests were answered successfully within d of their due time.
func (l *LoadResult) Within(d time.Duration) uint64 {
	return l.Histograms.LatencySuccess.Between([]float64{0, d.Seconds()})[0]
}

// Latencies returns the sorted times from due to done of all requests of loads.
func Latencies(loads ...*LoadResult) (waits result.Latencies) {
	for _, l := range loads {
		for _, o := range l.Outcomes {
			waits = append(waits, o.Done-o.Due)
		}
	}
	slices.Sort(waits)
	return waits
}

// Answered returns the sorted times from due to done of the requests that were answered with a status.
func (l *LoadResult) Answered(status int) (waits result.Latencies) {
	for _, o := range l.Outcomes {
		if o.Status == status {
			waits = append(waits, o.Done-o.Due)
		}
	}
	slices.Sort(waits)
	return waits
}

// Run runs the load to its end. If ctx ends the run, its error is returned.
func (l Load) Run(ctx context.Context) (loaded *LoadResult, err error) {
	err = Catch(func() { loaded = l.run(ctx) })
	return loaded, err
}

func (l Load) run(ctx context.Context) *LoadResult {
	Check(Wait(ctx, time.Until(l.From)))
	bin, dir := Must(Binary("loadgen")), Must(os.MkdirTemp("", "weir-load-"))
	defer os.RemoveAll(dir)
	plan, out, lines := filepath.Join(dir, "plan.json"), filepath.Join(dir, "result.json"),
		filepath.Join(dir, "outcomes.csv")
	Check(os.WriteFile(plan, Must(json.Marshal(l.plan())), 0o600))
	args := []string{"run", plan, "-out", out, "-event-loops", fmt.Sprint(l.Loops)}
	if l.Outcomes {
		args = append(args, "-outcomes", lines)
	}
	cmd := exec.CommandContext(ctx, bin, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = stopMax
	output, err := watched(cmd, l.Progress)
	Check(ctx.Err())
	// Statuses 3 and 4 are verdicts, which the result repeats.
	if exit, ok := errors.AsType[*exec.ExitError](err); err != nil && (!ok || exit.ExitCode() < 3 || exit.ExitCode() > 4) {
		Check(fmt.Errorf("loadgen: %w\n%s", err, output))
	}
	result, err := os.ReadFile(out)
	if err != nil {
		Check(fmt.Errorf("loadgen wrote no result: %w\n%s", err, output))
	}
	loaded := &LoadResult{CPU: cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()}
	Section("read loadgen's result", func() {
		Check(json.Unmarshal(result, &loaded.Result))
		if l.Outcomes {
			loaded.Outcomes = readOutcomes(lines)
		}
	})
	return loaded
}

// Load runs loads at the same time. If one fails, the others are stopped.
func (l *Lab) Load(loads ...Load) []*LoadResult { return l.During(func() {}, loads...) }

// During is Load that also calls do. If a load fails, l.Ctx ends; if do fails, the loads are stopped.
func (l *Lab) During(do func(), loads ...Load) []*LoadResult {
	whole := l.Ctx
	defer func() { l.Ctx = whole }()
	ctx, cancel := context.WithCancelCause(whole)
	defer cancel(nil)
	l.Ctx = ctx
	loaded := make([]*LoadResult, len(loads))
	var all sync.WaitGroup
	for i, one := range loads {
		all.Go(func() {
			var err error
			if loaded[i], err = one.Run(ctx); err != nil {
				cancel(err) // only the first counts
			}
		})
	}
	if err := Catch(do); err != nil {
		cancel(err)
	}
	all.Wait()
	Check(context.Cause(ctx))
	return loaded
}

// watched runs a command to its end and prints the lines of its stderr, indented, to progress, unless that
// is nil. It returns the end of its output.
func watched(cmd *exec.Cmd, progress io.Writer) (output string, err error) {
	log := new(process.Log)
	cmd.Stdout = log
	stderr := io.TeeReader(Must(cmd.StderrPipe()), log)
	Check(cmd.Start())
	for lines := bufio.NewScanner(stderr); lines.Scan(); {
		fmt.Fprintln(cmp.Or(progress, io.Discard), "  "+lines.Text())
	}
	_, _ = io.Copy(io.Discard, stderr) // what follows a line that is too long
	err = cmd.Wait()
	return log.End(outputMax), err
}

func (l Load) plan() map[string]any {
	profile := map[string]any{"type": "constant", "params": map[string]int{"rps": l.Rate}, "arrivals": l.Arrivals}
	length := l.For
	if len(l.Steps) > 0 {
		var steps []map[string]float64
		length = 0
		for _, s := range l.Steps {
			steps = append(steps, map[string]float64{"rps": s.Rate, "duration": s.For.Seconds()})
			length += s.For
		}
		profile["type"], profile["params"] = "steps", map[string]any{"steps": steps}
	}
	options := make(map[string]any)
	p := map[string]any{"limiterUrl": l.URL, "duration": length.Seconds(), "profile": profile,
		"concurrency": l.Connections, "seed": l.Seed,
		"shard": map[string]int{"index": l.Shard, "of": max(1, l.Shards)}, "requestOptions": options}
	if !l.StartAt.IsZero() {
		p["startAt"] = l.StartAt.UTC().Format(time.RFC3339Nano)
	}
	if l.Protocol != "" {
		p["protocol"] = l.Protocol
	}
	if l.Timeout > 0 {
		options["timeout"] = l.Timeout.Seconds()
	}
	headers := maps.Clone(l.Headers)
	if l.Body != "" {
		options["method"], options["body"] = "POST", l.Body
		headers = maps.Collect(maps.All(l.Headers))
		headers["Content-Type"] = "application/json"
	}
	if headers != nil {
		options["headers"] = headers
	}
	return p
}

// readOutcomes reads a file written by loadgen -outcomes. Its first row holds the names of
// the fields.
func readOutcomes(path string) (list []Outcome) {
	f := Must(os.Open(path))
	defer f.Close()
	r := csv.NewReader(f)
	r.FieldsPerRecord = 5
	rows := Must(r.ReadAll())
	for _, row := range rows[min(1, len(rows)):] {
		due, err1 := strconv.ParseInt(row[0], 10, 64)
		done, err2 := strconv.ParseInt(row[2], 10, 64)
		status, err3 := strconv.Atoi(row[3])
		if err := errors.Join(err1, err2, err3); err != nil {
			Check(fmt.Errorf("%q: %w", row, err))
		}
		list = append(list, Outcome{time.Duration(due) * time.Microsecond, time.Duration(done) * time.Microsecond, status})
	}
	return list
}

// CountValidities counts the validities of runs, as in "2 VALID, 1 DEGRADED".
func CountValidities[T any](runs []T, of func(T) record.Validity) string {
	count := make(map[record.Validity]int)
	for _, r := range runs {
		count[of(r)]++
	}
	var counts []string
	for _, v := range record.Verdicts() {
		if count[v] > 0 {
			counts = append(counts, fmt.Sprintf("%d %s", count[v], v))
		}
	}
	return strings.Join(counts, ", ")
}

// Inconclusive returns an error if one of the loads was not as planned. Figures then describe
// this machine rather than the programs under test. The program ends with status 3, and no
// record is kept.
func Inconclusive(loads ...*LoadResult) error {
	at := slices.IndexFunc(loads, func(l *LoadResult) bool { return l.Verdict == record.Invalid })
	if at < 0 {
		return nil
	}
	return MachineBusy(loads[at].Reasons)
}

// MachineBusy returns the error of an experiment that this machine was too busy for.
func MachineBusy(reasons []string) error {
	return &service.ExitError{Status: 3, Err: fmt.Errorf(
		"inconclusive: this machine was too busy for the load (%s); run it again with less other work: %w",
		strings.Join(reasons, "; "), result.ErrNotRecorded)}
}

// InconclusiveFailures is Inconclusive for the loads of runs that missed an expectation. It returns nil if one
// of these loads was as planned, because that run proves the failure.
func InconclusiveFailures(wrong []*LoadResult) error {
	if slices.ContainsFunc(wrong, func(l *LoadResult) bool { return Inconclusive(l) == nil }) {
		return nil
	}
	return Inconclusive(wrong...)
}
