package decision

import (
	"context"
	"fmt"
	"net/http"
	"syscall"
	"time"

	"weir/bench/report"
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

// load returns a load of requests, each for a user of its own, whose outcomes are recorded.
func load(url string, rate int, span time.Duration) rig.Load {
	return rig.Load{URL: url, Rate: rate, For: span, Body: fmt.Sprintf(body, "{{counter}}"), Outcomes: true}
}

// pace measures how long decisions take at a steady rate.
func (l *lab) pace(ctx context.Context) error {
	_, m, err := l.withRedis(ctx)
	if err != nil {
		return err
	}
	loaded, err := load(url(m), paceRate, paceTime).Run(ctx)
	if err != nil {
		return err
	}
	l.Loads = append(l.Loads, loaded)
	w, bad := rig.Waits(loaded), undecided(loaded)
	fmt.Fprintf(l.Out, "### %d/s with Redis, each with a key of its own\n\nFrom the due time of a request to its answer: p50 %.2f ms, p99 %.2f ms, longest %.1f ms; %d of %d were not decided.\n\n",
		paceRate, report.Millis(report.Quantile(w, .5)), report.Millis(report.Quantile(w, .99)), report.Millis(report.Quantile(w, 1)), bad, len(w))
	l.AtMost("p99 of the wait at 5,000/s in ms", report.Millis(report.Quantile(w, .99)), 2)
	l.Never(bad > 0, "%d requests at 5,000/s were not decided", bad)
	return nil
}

// frozen stops Redis under load for some seconds.
func (l *lab) frozen(ctx context.Context) error {
	redis, m, err := l.withRedis(ctx)
	if err != nil {
		return err
	}
	one := load(url(m), frozenRate, frozenTime)
	one.StartAt = time.Now().Add(500 * time.Millisecond)
	var watched rig.Usage
	loaded, err := rig.During(ctx, func(ctx context.Context) (err error) {
		watched, err = l.stopped(ctx, redis, m.Process, one.StartAt)
		return err
	}, one)
	if err != nil {
		return err
	}
	l.Loads = append(l.Loads, loaded...)
	w, bad := rig.Waits(loaded...), undecided(loaded[0])
	grown := float64(watched.RSSPeak-watched.RSSBefore) / 1e6
	fmt.Fprintf(l.Out, "### Redis stopped from second %.0f to %.0f\n\n%d/s: p50 %.2f ms, longest %.1f ms; %d of %d were not answered with 200. Resident memory grew from %.1f MB by %.1f MB.\n\n",
		stopAfter.Seconds(), goAfter.Seconds(), frozenRate, report.Millis(report.Quantile(w, .5)), report.Millis(report.Quantile(w, 1)), bad, len(w), float64(watched.RSSBefore)/1e6, grown)
	l.AtMost("Redis stopped: longest wait in ms", report.Millis(report.Quantile(w, 1)), 105)
	l.AtMost("Redis stopped: growth of memory in MB", grown, 8)
	l.Never(bad > 0, "%d requests were not admitted while Redis was stopped", bad)
	return nil
}

// stopped stops Redis and resumes it, and returns what the proxy used, starting a second before.
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

// undecided returns how many requests were not answered with 200.
func undecided(l *rig.Loaded) (n int) {
	for _, o := range l.Outcomes {
		if o.Status != http.StatusOK {
			n++
		}
	}
	return n
}
