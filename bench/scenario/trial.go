package scenario

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"weir/bench/rig"
)

// A trial plays a constant load, possibly with troubles, and counts every second.
type trial struct {
	rig.Topology
	rate     int               // requests per second to each proxy
	seconds  int               // how long
	troubles []Trouble         // at whole seconds
	show     func(s *second)   // is called after each second; may be nil
	progress func(line string) // of the load; may be nil
}

// late is when in each second of the clock the counters are read: by then a fixed window has
// admitted everything that it will.
const late = 850 * time.Millisecond

// A second holds the counts between two readings.
type second struct {
	n                 int       // the first is 1
	at                time.Time // of the reading at its end
	admitted, refused uint64
	modes             string // of the proxies
	trouble           string // played after it; empty for none
}

// An outcome is the outcome of a trial.
type outcome struct {
	loads   []*rig.Loaded // by proxy
	seconds []second
	// troubles happened at these times from the start of the load.
	troubles []Trouble
}

// run plays the trial.
func (t trial) run(ctx context.Context) (o *outcome, err error) {
	st := new(stage)
	if st.Rig, err = t.Start(ctx); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, st.end()) }()
	loads := make([]rig.Load, len(st.Proxies))
	for i := range loads {
		loads[i] = rig.Load{URL: st.URL(i), Rate: t.rate, For: time.Duration(t.seconds) * time.Second}
	}
	o = new(outcome)
	began := time.Now()
	o.loads, err = rig.During(ctx, t.progress, func(ctx context.Context) error { return st.watch(ctx, &t, o) }, loads...)
	if err != nil {
		return nil, err
	}
	for i := range o.troubles {
		o.troubles[i].At -= o.loads[0].StartedAt.Sub(began)
	}
	return o, nil
}

// watch reads the counters once in each second of the clock and plays the troubles. Windows end
// with the second, so troubles happen between the reading and the next window.
func (st *stage) watch(ctx context.Context, t *trial, o *outcome) error {
	began := time.Now()
	first := began.Truncate(time.Second).Add(late)
	var before second
	for n := 1; n < t.seconds; n++ {
		if err := rig.Wait(ctx, time.Until(first.Add(time.Duration(n)*time.Second))); err != nil {
			return err
		}
		now, err := st.count(ctx)
		if err != nil {
			return err
		}
		if now.admitted < before.admitted { // a restarted target counts from zero
			before.admitted = 0
		}
		s := second{n: n, at: now.at, admitted: now.admitted - before.admitted, refused: now.refused - before.refused, modes: now.modes}
		before = now
		for _, trouble := range t.troubles {
			if trouble.At != time.Duration(n)*time.Second {
				continue
			}
			o.troubles = append(o.troubles, Trouble{time.Since(began), trouble.Name})
			s.trouble = trouble.Name
			if err := st.do(ctx, trouble.Name); err != nil {
				return fmt.Errorf("%s: %w", trouble.Name, err)
			}
			if trouble.Name == restartTarget { // the target is back when it answers
				o.troubles[len(o.troubles)-1].At = time.Since(began)
			}
		}
		o.seconds = append(o.seconds, s)
		if t.show != nil {
			t.show(&s)
		}
	}
	return nil
}

// count returns the counts of the programs so far; that of a killed target is zero.
func (st *stage) count(ctx context.Context) (s second, err error) {
	s.at = time.Now()
	if ended, _ := st.Target.Ended(); !ended {
		if s.admitted, err = rig.Served(ctx, st.TargetAddr); err != nil {
			return s, err
		}
	}
	var modes []string
	for _, addr := range st.ProxyAddrs {
		samples, err := rig.Scrape(ctx, addr)
		if err != nil {
			return s, err
		}
		s.refused += uint64(samples.Sum("ratelimiter_requests_total", `decision="rejected"`))
		for _, m := range []string{"normal", "failopen", "local", "closed"} {
			if samples.Sum("ratelimiter_mode", `type="`+m+`"`) == 1 {
				modes = append(modes, m)
			}
		}
	}
	s.modes = strings.Join(modes, ", ")
	return s, nil
}
