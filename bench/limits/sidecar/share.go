package sidecar

import (
	"fmt"
	"time"

	"weir/bench/lab/rig"
	"weir/internal/test/freeport"
)

const (
	sharedLimit = 1000 // per second, of all sidecars
	sharedRate  = 500  // per second, offered to each
	sharedOff   = .005 // allowed deviation of the admitted rate, share
	sharers     = 4
	shareTime   = 20 * time.Second
	killAfter   = 7 // seconds
	addAfter    = 13
	// addedAfter is when the added sidecar gets its load: by then it has started.
	addedAfter = (addAfter + 2) * time.Second
)

// share has sidecars share a limit while one of them is killed and one is added.
func (l *lab) share() {
	l.Heading("%d sidecars of one master", sharers)
	l.Note("They share a limit of %d/s; each is offered %d/s. One is killed after %d s, and another one is started "+
		"after %d s, without any change to the others.", sharedLimit, sharedRate, killAfter, addAfter)
	target := l.target()
	env := append(l.settings(target, l.master().Addr), fmt.Sprintf("RATE_LIMIT_LIMIT=%d", sharedLimit))
	var sidecars []*rig.Process
	var loads []rig.Load
	for range sharers {
		p, addr := l.Start("proxy", env...)
		sidecars = append(sidecars, p)
		loads = append(loads, rig.Load{URL: "http://" + addr + "/api/test", Rate: sharedRate, For: shareTime})
	}
	added := rig.Must(freeport.Addr())
	loads = append(loads, rig.Load{URL: "http://" + added + "/api/test", Rate: sharedRate,
		For: shareTime - addedAfter, From: time.Now().Add(addedAfter)})
	l.Head("second", "admitted", "event")
	var admitted []uint64
	loaded := l.During(func() {
		before := uint64(0)
		l.Seconds(int(shareTime/time.Second)-2, func(n int) {
			served, event := l.Served(target), ""
			admitted, before = append(admitted, served-before), served
			switch n {
			case killAfter:
				event = "one killed"
				sidecars[0].Kill()
			case addAfter:
				event = "one started"
				l.StartAt("proxy", added, env...)
			}
			l.Add("%d | %d | %s", n, admitted[n-1], event)
		})
	}, loads...)
	l.judgeShare(admitted, loaded)
}

// starting is how many seconds the load takes to start.
const starting = 2

// judgeShare adds the expectations: the limit holds in each second, and only requests to the killed
// sidecar, which is the first, fail.
func (l *lab) judgeShare(admitted []uint64, loads []*rig.LoadResult) {
	sum := 0.0
	for n, admitted := range admitted[starting:] {
		off := float64(admitted)/sharedLimit - 1
		l.Never(off > sharedOff || off < -sharedOff, "second %d: %d admitted, the limit is %d", n+1+starting, admitted,
			sharedLimit)
		sum += float64(admitted)
	}
	mean := sum / float64(len(admitted)-starting)
	l.AtMost("share: admitted per second, relative to the limit", mean/sharedLimit, 1+sharedOff)
	l.AtLeast("share: admitted per second, relative to the limit", mean/sharedLimit, 1-sharedOff)
	for i, loaded := range loads {
		l.Loads = append(l.Loads, loaded)
		l.Never(i > 0 && loaded.Errors > 0, "sidecar %d: %d requests failed", i+1, loaded.Errors)
	}
}
