package control

import (
	"context"
	"time"

	"weir/internal/service"
	"weir/loadgen/drive"
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
