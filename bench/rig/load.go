package rig

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
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

	"weir/loadgen/record"
)

// A Load is a rate for a time.
type Load struct {
	URL  string
	Rate int // requests per second
	For  time.Duration
	// Profile is another shape of the rate: the JSON of a test configuration's
	// field of that name. Empty: constant at Rate.
	Profile string
	// Connections is how many it uses; 0: as many as it finds right.
	Connections int
	// Loops is how many event loops it uses; 0: as many as it finds right.
	Loops int
	// StartAt is when the schedule begins; zero: as soon as it can.
	StartAt time.Time
	// Seed is what arrivals are drawn from.
	Seed int64
	// Arrivals is how requests come; empty: evenly. Seed draws those that are not.
	Arrivals string
	// Shard is which of how many generators of one schedule this is; zero: the only one.
	Shard, Shards int
	// Timeout is that of a request; zero: the generator's own.
	Timeout time.Duration
	// Body is the JSON that is posted; empty: the requests are GET.
	Body string
	// Outcomes says that Loaded.Outcomes are wanted.
	Outcomes bool
}

// An Outcome is what became of one request. Instants count from the start of the
// schedule.
type Outcome struct {
	Due, Done time.Duration
	Status    int // of the answer; 0 without one
}

// Loaded is what the load generator says about a run, and what is known of the run besides.
type Loaded struct {
	record.Result

	// CPU is the processor time that the generator used.
	CPU time.Duration
	// Outcomes are those of all requests, in the order of their ends, when the
	// Load asked for them.
	Outcomes []Outcome
}

// Within is how many requests were answered with success within d of when they
// were due.
func (l *Loaded) Within(d time.Duration) uint64 {
	return l.Histograms.LatencySuccess.Between([]float64{0, d.Seconds()})[0]
}

// Waits are how long the requests of loads took from when they were due, in order.
func Waits(loads ...*Loaded) (waits []time.Duration) {
	for _, l := range loads {
		for _, o := range l.Outcomes {
			waits = append(waits, o.Done-o.Due)
		}
	}
	slices.Sort(waits)
	return waits
}

// Echo prints lines of progress, so that records leave them out.
func Echo(out io.Writer) func(line string) {
	return func(line string) { fmt.Fprintln(out, "  "+line) }
}

// Run drives a load with our load generator and passes each line of its
// progress, one a second, to progress unless that is nil. A run that ctx ends is an
// error.
func (l Load) Run(ctx context.Context, progress func(line string)) (*Loaded, error) {
	bin, err := Binary("loadgen")
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "weir-load-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	text, err := json.Marshal(l.plan())
	if err != nil {
		return nil, err
	}
	plan, out, lines := filepath.Join(dir, "plan.json"), filepath.Join(dir, "result.json"), filepath.Join(dir, "outcomes.csv")
	if err := os.WriteFile(plan, text, 0o600); err != nil {
		return nil, err
	}
	args := []string{"run", plan, "-out", out, "-event-loops", fmt.Sprint(l.Loops)}
	if l.Outcomes {
		args = append(args, "-outcomes", lines)
	}
	cmd := exec.CommandContext(ctx, bin, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = stopMax
	words, err := watched(cmd, progress)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	// 3 and 4 are verdicts: the result is there, and tells.
	if exit, ok := errors.AsType[*exec.ExitError](err); err != nil && (!ok || exit.ExitCode() < 3 || exit.ExitCode() > 4) {
		return nil, fmt.Errorf("loadgen: %w\n%s", err, words)
	}
	result, err := os.ReadFile(out)
	if err != nil {
		return nil, fmt.Errorf("loadgen wrote no result: %w\n%s", err, words)
	}
	var loaded Loaded
	if err := json.Unmarshal(result, &loaded.Result); err != nil {
		return nil, fmt.Errorf("read loadgen's result: %w", err)
	}
	loaded.CPU = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	if l.Outcomes {
		loaded.Outcomes, err = readOutcomes(lines)
	}
	return &loaded, err
}

// RunAll drives loads at the same time. When one fails the others are ended. progress is that of Run.
func RunAll(ctx context.Context, progress func(line string), loads ...Load) ([]*Loaded, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	loaded := make([]*Loaded, len(loads))
	var all sync.WaitGroup
	for i, l := range loads {
		all.Go(func() {
			var err error
			if loaded[i], err = l.Run(ctx, progress); err != nil {
				cancel(err) // only the first counts
			}
		})
	}
	all.Wait()
	return loaded, context.Cause(ctx)
}

// watched runs a command to its end. Its lines of stderr go to progress; the last of
// all it said is returned.
func watched(cmd *exec.Cmd, progress func(line string)) (*tail, error) {
	words := new(tail)
	pr, pw := io.Pipe()
	cmd.Stdout, cmd.Stderr = words, io.MultiWriter(pw, words)
	read := make(chan struct{})
	go func() {
		defer close(read)
		for lines := bufio.NewScanner(pr); lines.Scan(); {
			if progress != nil {
				progress(lines.Text())
			}
		}
		_, _ = io.Copy(io.Discard, pr)
	}()
	err := cmd.Run()
	_ = pw.Close()
	<-read
	return words, err
}

// plan is the test configuration.
func (l Load) plan() map[string]any {
	p := map[string]any{"limiterUrl": l.URL, "duration": l.For.Seconds(), "concurrency": l.Connections, "seed": l.Seed}
	if l.Profile != "" {
		p["profile"] = json.RawMessage(l.Profile)
	} else {
		p["profile"] = map[string]any{"type": "constant", "params": map[string]int{"rps": l.Rate}, "arrivals": l.Arrivals}
	}
	if !l.StartAt.IsZero() {
		p["startAt"] = l.StartAt.UTC().Format(time.RFC3339Nano)
	}
	if l.Shards > 0 {
		p["shard"] = map[string]int{"index": l.Shard, "of": l.Shards}
	}
	options := make(map[string]any)
	if l.Timeout > 0 {
		options["timeout"] = l.Timeout.Seconds()
	}
	if l.Body != "" {
		options["method"], options["body"], options["headers"] = "POST", l.Body, map[string]string{"Content-Type": "application/json"}
	}
	if len(options) > 0 {
		p["requestOptions"] = options
	}
	return p
}

// readOutcomes reads what loadgen's -outcomes wrote.
func readOutcomes(path string) (list []Outcome, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	first := true
	for line := range strings.Lines(string(text)) {
		if first { // the names of the fields
			first = false
			continue
		}
		fields := strings.Split(line, ",")
		if len(fields) != 5 {
			return nil, fmt.Errorf("read loadgen's outcomes: %q has not 5 fields", line)
		}
		var o Outcome
		due, err1 := strconv.ParseInt(fields[0], 10, 64)
		done, err2 := strconv.ParseInt(fields[2], 10, 64)
		o.Due, o.Done = time.Duration(due)*time.Microsecond, time.Duration(done)*time.Microsecond
		var err3 error
		o.Status, err3 = strconv.Atoi(fields[3])
		if err := errors.Join(err1, err2, err3); err != nil {
			return nil, fmt.Errorf("read loadgen's outcomes: %q: %w", line, err)
		}
		list = append(list, o)
	}
	return list, nil
}
