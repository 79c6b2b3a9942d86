// Package accuracy measures how exactly a limit is kept over a long time, as
// the protected service sees it.
package accuracy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"weir/bench/rig"
)

const (
	limit   = 1000
	rate    = 2000
	seconds = 60
	warmUp  = 4 // seconds until counting begins: the token bucket's stored burst is spent
	settle  = 800 * time.Millisecond
)

// Run drives the load under each algorithm and prints how many requests per
// second the target served. The error says that one was off by more than half
// a percent, or that requests were lost.
func Run(ctx context.Context, out io.Writer) error {
	fmt.Fprintf(out, "%d/s through a limit of %d/s, %d s each, GATE=off; counted at the target over whole seconds after %d s\n\n", rate, limit, seconds, warmUp)
	fmt.Fprintln(out, "| algorithm | sent | admitted | refused | failed | target: per second | off by | generator |")
	fmt.Fprintln(out, "| --- | --- | --- | --- | --- | --- | --- | --- |")
	var bad []string
	for _, a := range []string{"fixed", "sliding", "token"} {
		m, err := measure(ctx, a)
		if err != nil {
			return err
		}
		off := m.perSecond/limit - 1
		fmt.Fprintf(out, "| %s | %d | %d | %d | %d | %.2f | %+.3f %% | %s, lag p99 %.0f µs |\n", a, m.load.Sent, m.load.Success, m.load.RateLimited,
			m.load.Errors, m.perSecond, 100*off, m.load.Verdict, 1e6*m.load.Lag.P99)
		if !m.good() {
			bad = append(bad, a)
		}
	}
	if len(bad) > 0 {
		return fmt.Errorf("not within half a percent, or not without loss: %v", bad)
	}
	return nil
}

type measured struct {
	load      *rig.Loaded
	perSecond float64
}

// offMax is the share by which the admitted rate may miss the limit.
const offMax = 0.005

// good reports whether the limit was kept and no request lost.
func (m measured) good() bool {
	return math.Abs(m.perSecond/limit-1) <= offMax && m.load.Errors == 0 && m.load.Sent == m.load.Success+m.load.RateLimited
}

func measure(ctx context.Context, algorithm string) (measured, error) {
	r, err := rig.New(ctx, nil, []string{"GATE=off", "RATE_LIMIT_ALGORITHM=" + algorithm, fmt.Sprintf("RATE_LIMIT_LIMIT=%d", limit),
		fmt.Sprintf("RATE_LIMIT_CAPACITY=%d", limit), fmt.Sprintf("RATE_LIMIT_FILL_RATE=%d", limit)})
	if err != nil {
		return measured{}, err
	}
	counted := make(chan float64, 1)
	failed := make(chan error, 1)
	go func() {
		v, err := count(ctx, r.TargetAddr)
		counted <- v
		failed <- err
	}()
	load, err := rig.Load{URL: r.URL(), Rate: rate, For: seconds * time.Second}.Run(ctx, func(string) {})
	m := measured{load: load, perSecond: <-counted}
	return m, errors.Join(err, <-failed, r.Stop())
}

// count is what the target served per second, over whole windows. It looks
// late in a window, when a fixed one has let through all it will.
func count(ctx context.Context, targetAddr string) (float64, error) {
	first, err := servedLate(ctx, targetAddr, warmUp*time.Second)
	if err != nil {
		return 0, err
	}
	const whole = seconds - warmUp - 3
	last, err := servedLate(ctx, targetAddr, whole*time.Second-settle)
	if err != nil {
		return 0, err
	}
	windows := last.at.Truncate(time.Second).Sub(first.at.Truncate(time.Second)).Seconds()
	return float64(last.n-first.n) / windows, nil
}

// lateIn is the first moment at or after t that is late in its second.
func lateIn(t time.Time) time.Time {
	at := t.Truncate(time.Second).Add(settle)
	if at.Before(t) {
		at = at.Add(time.Second)
	}
	return at
}

type sample struct {
	at time.Time
	n  uint64
}

// servedLate waits, then on until late in the current second, and asks.
func servedLate(ctx context.Context, targetAddr string, wait time.Duration) (sample, error) {
	at := lateIn(time.Now().Add(wait))
	select {
	case <-time.After(time.Until(at)):
	case <-ctx.Done():
		return sample{}, ctx.Err()
	}
	n, err := rig.Served(ctx, targetAddr)
	return sample{at, n}, err
}
