package decision

import (
	"fmt"
	"net/http"
	"syscall"
	"time"

	"weir/bench/lab/rig"
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
func (l *lab) pace() {
	_, m := l.withRedis()
	loaded := l.Load(load(url(m), paceRate, paceTime))
	l.Loads = append(l.Loads, loaded...)
	w, bad := rig.Latencies(loaded...), undecided(loaded[0])
	l.Heading("%d/s with Redis, each with a key of its own", paceRate)
	l.Note("From the due time of a request to its answer: %v; %d of %d were not decided.", w, bad, len(w))
	l.AtMost("p99 of the wait at 5,000/s in ms", w.Millis(.99), 2)
	l.Never(bad > 0, "%d requests at 5,000/s were not decided", bad)
}

// frozen stops Redis under load for some seconds. Memory is watched from a second before.
func (l *lab) frozen() {
	redis, m := l.withRedis()
	one := load(url(m), frozenRate, frozenTime)
	one.StartAt = time.Now().Add(500 * time.Millisecond)
	var used rig.Usage
	loaded := l.During(func() {
		l.Wait(one.StartAt.Add(stopAfter - time.Second))
		rig.MeasureUsage(m.Pid(), &used, func() {
			l.Wait(one.StartAt.Add(stopAfter))
			rig.Check(redis.SignalAll(l.Ctx, syscall.SIGSTOP))
			l.Wait(one.StartAt.Add(goAfter))
			rig.Check(redis.SignalAll(l.Ctx, syscall.SIGCONT))
		})
	}, one)
	l.Loads = append(l.Loads, loaded...)
	w, bad := rig.Latencies(loaded...), undecided(loaded[0])
	grown := float64(used.RSSPeak-used.RSSBefore) / 1e6
	l.Heading("Redis stopped from second %.0f to %.0f", stopAfter.Seconds(), goAfter.Seconds())
	l.Note("%d/s: %v; %d of %d were not answered with 200. Resident memory grew from %.1f MB by %.1f MB.",
		frozenRate, w, bad, len(w), float64(used.RSSBefore)/1e6, grown)
	l.AtMost("Redis stopped: longest wait in ms", w.Millis(1), 105)
	l.AtMost("Redis stopped: growth of memory in MB", grown, 8)
	l.Never(bad > 0, "%d requests were not admitted while Redis was stopped", bad)
}

// undecided returns how many requests were not answered with 200.
func undecided(l *rig.LoadResult) int { return len(l.Outcomes) - len(l.Answered(http.StatusOK)) }
