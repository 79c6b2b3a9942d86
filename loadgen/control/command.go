package control

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"weir/internal/service"
	"weir/loadgen/drive"
	"weir/loadgen/record"
	"weir/loadgen/report"
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
	File    string    // the configuration
	Out     string    // where the result goes as JSON; may be empty
	Display *Display  // shows the progress
	Summary io.Writer // gets the summary
}

// Run runs the test to its end, or until ctx ends, and returns what the program
// should end with: nil or a *service.ExitError.
func (r *Runs) Run(ctx context.Context, c Command) error {
	out, err := c.create()
	if err != nil {
		return err
	}
	defer out.Close()
	if err := r.startFile(c.File); err != nil {
		return err
	}
	run, _ := r.Current()
	interrupted := c.follow(ctx, run)
	result := run.Result()
	fmt.Fprint(c.Summary, report.Summary(result))
	if c.Out != "" {
		if err := writeResult(out, result); err != nil {
			return fmt.Errorf("write %s: %w", c.Out, err)
		}
	}
	return ending(result, interrupted)
}

// create creates the file for the result, before the test: afterwards would be
// late to learn that it cannot be.
func (c *Command) create() (*os.File, error) {
	if c.Out == "" {
		return nil, nil
	}
	f, err := os.Create(c.Out)
	if err != nil {
		return nil, &service.SettingError{Name: "OUT", Value: c.Out, Problem: "cannot be written: " + err.Error()}
	}
	return f, nil
}

func writeResult(f *os.File, r *record.Result) error {
	b, err := report.JSON(r)
	if err != nil {
		return err
	}
	if _, err := f.Write(b); err != nil {
		return err
	}
	return f.Sync()
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

// ending is what the program ends with. A test that was cut short or that the
// generator spoilt says nothing about thresholds.
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
