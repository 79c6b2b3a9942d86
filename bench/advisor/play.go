package advisor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"weir/advisor/core"
	"weir/bench/closedloop"
)

// A played has the results of all contestants in a scenario.
type played struct {
	*closedloop.Scenario
	results map[string]*closedloop.Result
}

// play plays every scenario with every contestant, GOMAXPROCS scenarios at once, and
// reports its progress.
func play(ctx context.Context, scenarios []*closedloop.Scenario, contestants []closedloop.Contestant, progress io.Writer) ([]*played, error) {
	out := make([]*played, len(scenarios))
	began := time.Now()
	var done atomic.Int64
	err := each(ctx, len(scenarios), func(i int) (err error) {
		out[i], err = playOne(ctx, scenarios[i], contestants)
		fmt.Fprintf(progress, "\r%d of %d scenarios, %v", done.Add(1), len(scenarios), time.Since(began).Round(time.Second))
		return err
	})
	fmt.Fprintln(progress)
	return out, err
}

// each calls f for 0 to n-1 until ctx ends, GOMAXPROCS of them at the same time.
func each(ctx context.Context, n int, f func(i int) error) error {
	faults := make([]error, n)
	var next atomic.Int64
	var all sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), n) {
		all.Go(func() {
			for i := int(next.Add(1)) - 1; i < n && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				faults[i] = f(i)
			}
		})
	}
	all.Wait()
	return errors.Join(append(faults, ctx.Err())...)
}

func playOne(ctx context.Context, s *closedloop.Scenario, contestants []closedloop.Contestant) (*played, error) {
	if len(s.History) > 0 { // the contestants begin with what a core learns from it
		c := core.New(s.Tuning())
		c.Import(s.History)
		var err error
		if s.Memory, err = c.Parts(); err != nil {
			return nil, fmt.Errorf("%s: write down what was learned: %w", s.Name, err)
		}
	}
	p := &played{s, make(map[string]*closedloop.Result)}
	for _, c := range contestants {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		r, err := closedloop.Run(s, c.New(s))
		if err != nil {
			return nil, fmt.Errorf("%s: %s: %w", s.Name, c.Name, err)
		}
		p.results[c.Name] = r
	}
	return p, nil
}
