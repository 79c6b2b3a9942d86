package control

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/goccy/go-json"

	"weir/internal/program/service"
	"weir/loadgen/drive"
	"weir/loadgen/plan"
	"weir/loadgen/record"
)

// Exit statuses of a test run from the command line.
const (
	exitConfig      = 2   // the configuration is wrong
	exitInvalid     = 3   // the generator could not keep the schedule
	exitThreshold   = 4   // a threshold was missed
	exitInterrupted = 130 // by a signal
)

// A Command is a test run from the command line.
type Command struct {
	File    string   // the configuration
	Display *Display // shows the progress
	Outputs
}

// Run runs the test to its end, or until ctx ends, and returns what the program
// should end with: nil or a *service.ExitError.
func (r *Runs) Run(ctx context.Context, c Command) error {
	out, err := c.create()
	if err != nil {
		return err
	}
	defer out.close()
	if out.outcomes != nil {
		r.settings.Outcomes = out.lines
	}
	if err := r.startFile(c.File); err != nil {
		return err
	}
	run, _ := r.Current()
	interrupted := c.follow(ctx, run)
	if err := out.write(run.Result()); err != nil {
		return err
	}
	return ending(run.Result(), interrupted)
}

// follow shows the run's progress until it is over; ctx stops it.
func (c *Command) follow(ctx context.Context, run *drive.Run) (interrupted bool) {
	ticker := time.NewTicker(c.Display.every())
	defer ticker.Stop()
	defer c.Display.clear()
	stop := ctx.Done()
	for {
		select {
		case <-ticker.C:
			s := run.Status()
			c.Display.draw(&s)
		case <-stop:
			stop = nil
			interrupted = true
			run.Stop()
		case <-run.Done():
			return interrupted
		}
	}
}

// ending returns the error that the program ends with. The thresholds do not count for a test
// that was interrupted, or in which the generator was too late.
func ending(r *record.Result, interrupted bool) error {
	switch {
	case interrupted:
		return &service.ExitError{Status: exitInterrupted}
	case r.Verdict == record.Invalid:
		return &service.ExitError{Status: exitInvalid}
	case !r.ThresholdsHeld():
		return &service.ExitError{Status: exitThreshold}
	}
	return nil
}

// Serve answers REST until ctx ends, then stops the current run. If file is not empty,
// its test is started at once.
func (r *Runs) Serve(ctx context.Context, e *service.Env, file string) error {
	l, err := net.Listen("tcp", e.Addr)
	if err != nil {
		return fmt.Errorf("listen on %s: %w", e.Addr, err)
	}
	if file != "" {
		if err := r.startFile(file); err != nil {
			l.Close()
			return err
		}
	}
	own := service.NewEndpoints(e)
	r.Register(own)
	e.Health.Component("test", r.Health)
	e.Health.SetReady(true)
	e.Logger("LoadGenerator").Info("Listening", "address", l.Addr().String())

	defer r.Close()                 // also waits until the test is over
	context.AfterFunc(ctx, r.Close) // while the last answers are sent
	return service.Serve(ctx, l, own, e.Logger("HttpServer"))
}

// startFile starts the test of a configuration file. An invalid file ends the program
// with status 2.
func (r *Runs) startFile(file string) error {
	data, err := plan.ReadConfig(file)
	if err != nil {
		return &service.ExitError{Status: exitConfig, Err: err}
	}
	if _, err = r.Start(data); err == nil {
		return nil
	}
	err = fmt.Errorf("%s: %w", file, err)
	if wrongConfig(err) {
		return &service.ExitError{Status: exitConfig, Err: err}
	}
	return err
}

// resultBytesMax bounds the file of a result. The result of an hour has about one megabyte.
const resultBytesMax = 64 << 20

// Merge merges the results of generators that shared a schedule, which runs wrote with
// -out. It returns the error that the program should end with, like Runs.Run. Files that
// are not results, or not of one schedule, end it with status 2.
func Merge(files []string, to Outputs) error {
	var results []*record.Result
	for _, name := range files {
		r, err := readResult(name)
		if err != nil {
			return &service.ExitError{Status: exitConfig, Err: err}
		}
		results = append(results, r)
	}
	sum, err := record.Merge(results...)
	if err != nil {
		return &service.ExitError{Status: exitConfig, Err: err}
	}
	// The output may be one of the input files, which have been read.
	out, err := to.create()
	if err != nil {
		return err
	}
	defer out.close()
	if err := out.write(sum); err != nil {
		return err
	}
	return ending(sum, false)
}

func readResult(name string) (*record.Result, error) {
	text, err := plan.ReadFile("result", name, resultBytesMax)
	if err != nil {
		return nil, err
	}
	r := new(record.Result)
	err = json.Unmarshal(text, r)
	_, broken := errors.AsType[*json.SyntaxError](err)
	switch {
	case r.Schema == 0 && !broken:
		return nil, fmt.Errorf("read result %s: was not written by loadgen run -out: it has no schema", name)
	case err != nil:
		return nil, fmt.Errorf("read result %s: %w", name, err)
	}
	return r, nil
}
