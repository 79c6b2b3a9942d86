package sidecar

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"weir/bench/report"
	"weir/bench/rig"
)

const (
	sharedLimit = 1000 // per second, of all sidecars
	sharedRate  = 500  // per second, offered to each
	sharedOff   = .005 // allowed deviation of the admitted rate, share
	sharers     = 4
	shareTime   = 20 * time.Second
	killAfter   = 7 // seconds
	addAfter    = 13
	// late is when in each second of the clock the target's counter is read: by then the window
	// has admitted everything that it will.
	late = 900 * time.Millisecond
)

// share has sidecars share a limit while one of them is killed and one is added.
func (l *lab) share(ctx context.Context) error {
	fmt.Fprintf(l.Out, "### %d sidecars of one master\n\nThey share a limit of %d/s; each is offered %d/s. One is killed after %d s, and another one is started after %d s, without any change to the others.\n\n",
		sharers, sharedLimit, sharedRate, killAfter, addAfter)
	target, err := l.target(ctx)
	if err != nil {
		return err
	}
	m, err := l.master(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s := &sharing{lab: l, target: target, master: m.Addr, began: time.Now(), left: shareTime}
	for range sharers {
		if err := s.add(ctx); err != nil {
			return err
		}
	}
	err = s.watch(ctx)
	if err != nil {
		cancel()
	}
	s.loading.Wait()
	if err := errors.Join(append(s.failed, err)...); err != nil {
		return err
	}
	s.judge()
	return nil
}

// A sharing is a group of sidecars under load.
//
// Owned by one goroutine; mu guards what loads write.
type sharing struct {
	*lab
	target, master string
	began          time.Time
	left           time.Duration
	sidecars       []*rig.Process
	admitted       []uint64 // by second

	loading sync.WaitGroup
	mu      sync.Mutex
	loads   map[int]*rig.Loaded
	failed  []error
}

// add starts another sidecar and its load.
func (s *sharing) add(ctx context.Context) error {
	p, addr, err := s.sidecar(ctx, s.target, s.master, fmt.Sprintf("RATE_LIMIT_LIMIT=%d", sharedLimit))
	if err != nil {
		return err
	}
	i, span := len(s.sidecars), s.left-time.Since(s.began)
	s.sidecars = append(s.sidecars, p)
	s.loading.Go(func() {
		loaded, err := rig.Load{URL: "http://" + addr + "/api/test", Rate: sharedRate, For: span.Truncate(time.Second)}.Run(ctx)
		s.mu.Lock()
		defer s.mu.Unlock()
		if err != nil {
			s.failed = append(s.failed, err)
			return
		}
		if s.loads == nil {
			s.loads = make(map[int]*rig.Loaded)
		}
		s.loads[i] = loaded
	})
	return nil
}

// watch reads in each second of the clock how much the target has served, and changes the
// sidecars between the reading and the next window.
func (s *sharing) watch(ctx context.Context) error {
	first := time.Now().Truncate(time.Second).Add(late)
	t := report.NewTable("second | admitted | event")
	before := uint64(0)
	for n := 1; n < int(shareTime.Seconds())-1; n++ {
		if err := rig.Wait(ctx, time.Until(first.Add(time.Duration(n)*time.Second))); err != nil {
			return err
		}
		served, err := rig.Served(ctx, s.target)
		if err != nil {
			return err
		}
		s.admitted = append(s.admitted, served-before)
		what := ""
		switch n {
		case killAfter:
			what = "one killed"
			s.sidecars[0].Kill()
		case addAfter:
			what = "one started"
			err = s.add(ctx)
		}
		t.Add("%d | %d | %s", n, served-before, what)
		if before = served; err != nil {
			return err
		}
	}
	fmt.Fprintf(s.Out, "%s\n", t)
	return nil
}

// starting is how many seconds the load takes to start.
const starting = 2

// judge adds the expectations: the limit holds in each second, and only requests to the killed
// sidecar fail.
func (s *sharing) judge() {
	sum := 0.0
	for n, admitted := range s.admitted[starting:] {
		off := float64(admitted)/sharedLimit - 1
		s.Never(off > sharedOff || off < -sharedOff, "second %d: %d admitted, the limit is %d", n+1+starting, admitted, sharedLimit)
		sum += float64(admitted)
	}
	mean := sum / float64(len(s.admitted)-starting)
	s.AtMost("share: admitted per second, relative to the limit", mean/sharedLimit, 1+sharedOff)
	s.AtLeast("share: admitted per second, relative to the limit", mean/sharedLimit, 1-sharedOff)
	for i, loaded := range s.loads {
		s.Loads = append(s.Loads, loaded)
		s.Never(i > 0 && loaded.Errors > 0, "sidecar %d: %d requests failed", i+1, loaded.Errors)
	}
}
