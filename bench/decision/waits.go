package decision

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"syscall"
	"time"

	"weir/bench/rig"
)

const (
	paceRate   = 5000
	paceTime   = 10 * time.Second
	frozenRate = 1000
	frozenTime = 9 * time.Second
	stopAfter  = 2 * time.Second
	goAfter    = 6 * time.Second
)

// load offers requests with a user each, and records what becomes of them.
func load(url string, rate int, span time.Duration) rig.Load {
	return rig.Load{URL: url, Rate: rate, For: span, Body: fmt.Sprintf(body, "{{counter}}"), Outcomes: true}
}

// pace measures how long decisions take at a steady rate.
func (l *lab) pace(ctx context.Context) error {
	redis, err := l.redis(ctx)
	if err != nil {
		return err
	}
	_, _, url, err := l.weir(ctx, "REDIS_HOST="+redis.Addr)
	if err != nil {
		return err
	}
	loaded, err := load(url, paceRate, paceTime).Run(ctx, nil)
	if err != nil {
		return err
	}
	l.loads = append(l.loads, loaded)
	w := waitsOf(loaded)
	fmt.Fprintf(l.out, "### %d/s with Redis, each with a key of its own\n\nFrom when a request was due to its answer: p50 %.2f ms, p99 %.2f ms, longest %.1f ms; %d of %d were not decided.\n\n",
		paceRate, ms(w.at(.5)), ms(w.at(.99)), ms(w.at(1)), w.bad, len(w.all))
	l.e.AtMost("p99 of the wait at 5,000/s in ms", ms(w.at(.99)), 2)
	l.e.Never(w.bad > 0, "%d requests at 5,000/s were not decided", w.bad)
	return nil
}

// frozen stops Redis under load for a while.
func (l *lab) frozen(ctx context.Context) error {
	redis, err := l.redis(ctx)
	if err != nil {
		return err
	}
	p, _, url, err := l.weir(ctx, "REDIS_HOST="+redis.Addr)
	if err != nil {
		return err
	}
	one := load(url, frozenRate, frozenTime)
	one.StartAt = time.Now().Add(500 * time.Millisecond)
	type result struct {
		loaded *rig.Loaded
		err    error
	}
	ended := make(chan result, 1)
	go func() {
		loaded, err := one.Run(ctx, nil)
		ended <- result{loaded, err}
	}()
	watched, err := l.stopped(ctx, redis, p, one.StartAt)
	r := <-ended
	if r.err != nil || err != nil {
		return fmt.Errorf("%w %w", r.err, err)
	}
	l.loads = append(l.loads, r.loaded)
	w := waitsOf(r.loaded)
	grown := float64(watched.RSSPeak-watched.RSSBefore) / 1e6
	fmt.Fprintf(l.out, "### Redis stopped from second %.0f to %.0f\n\n%d/s: p50 %.2f ms, longest %.1f ms; %d of %d were not answered with 200. Resident memory grew from %.1f MB by %.1f MB.\n\n",
		stopAfter.Seconds(), goAfter.Seconds(), frozenRate, ms(w.at(.5)), ms(w.at(1)), w.bad, len(w.all), float64(watched.RSSBefore)/1e6, grown)
	l.e.AtMost("Redis stopped: longest wait in ms", ms(w.at(1)), 105)
	l.e.AtMost("Redis stopped: memory grown by MB", grown, 8)
	l.e.Never(w.bad > 0, "%d requests were not let pass while Redis was stopped", w.bad)
	return nil
}

// stopped stops Redis and lets it go on, and returns what the proxy used from the second
// before.
func (l *lab) stopped(ctx context.Context, redis *rig.Redis, p *rig.Process, start time.Time) (u rig.Usage, err error) {
	if err := rig.Wait(ctx, time.Until(start.Add(stopAfter-time.Second))); err != nil {
		return u, err
	}
	stop, err := rig.Watch(p.Pid())
	if err != nil {
		return u, err
	}
	if err = rig.Wait(ctx, time.Until(start.Add(stopAfter))); err == nil {
		err = syscall.Kill(redis.Pid(), syscall.SIGSTOP)
	}
	if err == nil {
		err = rig.Wait(ctx, time.Until(start.Add(goAfter)))
		_ = syscall.Kill(redis.Pid(), syscall.SIGCONT)
	}
	u, watched := stop()
	if err == nil {
		err = watched
	}
	return u, err
}

// waits are how long answers took, in order.
type waits struct {
	all []time.Duration
	bad int // not 200
}

func waitsOf(l *rig.Loaded) (w waits) {
	for _, o := range l.Outcomes {
		w.all = append(w.all, o.Done-o.Due)
		if o.Status != http.StatusOK {
			w.bad++
		}
	}
	slices.Sort(w.all)
	return w
}

// at is a quantile.
func (w *waits) at(q float64) time.Duration {
	if len(w.all) == 0 {
		return 0
	}
	return w.all[min(int(q*float64(len(w.all))), len(w.all)-1)]
}
