// Package outage kills the protected service under load, starts it again, and
// shows second by second what the clients saw.
package outage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"weir/bench/rig"
)

// The experiment: a load for a time, the target killed and started again.
const (
	rate      = 2000
	seconds   = 14
	killAt    = 4 * time.Second
	restartAt = 8 * time.Second
	// goodAgain is how long after the target's return everything must be well.
	goodAgain = time.Second
)

// Run plays the outage and prints a row for each second. The error says what
// was not as it should be: an answer other than 200, 429 or 502, a failure
// outside the outage, or an answer that took long.
func Run(ctx context.Context, out io.Writer) (err error) {
	fmt.Fprintf(out, "%d/s for %d s through a proxy without a limit that matters; the target is killed at %v and starts again at %v\n\n", rate, seconds, killAt, restartAt)
	r, err := rig.New(ctx, nil, []string{"RATE_LIMIT_LIMIT=1000000"})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Stop()) }()
	began := time.Now()
	times := make(chan [2]time.Duration, 1)
	failed := make(chan error, 1)
	go func() {
		t, err := breakTarget(ctx, r, began)
		times <- t
		failed <- err
	}()
	loaded, err := rig.Load{URL: r.URL(), Rate: rate, For: seconds * time.Second}.Run(ctx, func(line string) { fmt.Fprintln(out, "  "+line) })
	away := <-times
	if err = errors.Join(err, <-failed); err != nil {
		return err
	}
	offset := loaded.StartedAt.Sub(began)
	return judge(out, loaded, away[0]-offset, away[1]-offset)
}

// breakTarget kills the target and starts it again, and says when.
func breakTarget(ctx context.Context, r *rig.Rig, began time.Time) (at [2]time.Duration, err error) {
	if err = wait(ctx, killAt); err != nil {
		return at, err
	}
	at[0] = time.Since(began)
	r.Target.Kill()
	if err = wait(ctx, restartAt-killAt); err != nil {
		return at, err
	}
	err = r.StartTarget(ctx)
	at[1] = time.Since(began)
	return at, err
}

func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// judge prints the seconds and checks them. Rows are by when requests were
// done, so a second that touches the outage may hold failures.
func judge(out io.Writer, l *rig.Loaded, gone, back time.Duration) error {
	fmt.Fprintf(out, "\nthe target was away from %.2f s to %.2f s\n\n| second | answered 200 | failed | p99 ms |\n| --- | --- | --- | --- |\n", gone.Seconds(), back.Seconds())
	var problems []string
	for _, row := range l.Series.Rows {
		fmt.Fprintf(out, "| %.0f | %d | %d | %.1f |\n", row.T, row.Success, row.Errors, 1e3*row.LatencyP99)
		from := time.Duration(row.T * float64(time.Second))
		during := from+time.Second >= gone && from < back+goodAgain
		if row.Errors > 0 && !during {
			problems = append(problems, fmt.Sprintf("%d failures in second %.0f", row.Errors, row.T))
		}
	}
	fmt.Fprintf(out, "\nanswers by status: %v; without an answer: %v\n", l.StatusCodes, l.ErrorsByReason)
	for status := range l.StatusCodes {
		if status != "200" && status != "502" {
			problems = append(problems, "answers with status "+status)
		}
	}
	if n := l.Sent - l.Success - l.StatusCodes["502"]; n > 0 {
		problems = append(problems, fmt.Sprintf("%d requests without an answer", n))
	}
	// What came while the target was away, and what was in flight.
	most := uint64(rate*(back-gone+goodAgain).Seconds()) + rate/10
	if l.Errors > most {
		problems = append(problems, fmt.Sprintf("%d failures, at most %d were due to the outage", l.Errors, most))
	}
	if len(problems) > 0 {
		return fmt.Errorf("not as it should be: %v", problems)
	}
	fmt.Fprintln(out, "As it should be: only requests of the outage failed, with a 502 at once, and all was well within a second of its end.")
	return nil
}
