package sidecar

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"weir/bench/lab/result"
	"weir/bench/lab/rig"
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
func (l *lab) share() {
	fmt.Fprintf(l.Out, "### %d sidecars of one master\n\nThey share a limit of %d/s; each is offered %d/s. One is "+
		"killed after %d s, and another one is started after %d s, without any change to the others.\n\n",
		sharers, sharedLimit, sharedRate, killAfter, addAfter)
	s := &sharing{lab: l, target: l.target(), master: l.master().Addr, began: time.Now(), loads: make(map[int]*rig.Loaded)}
	func() {
		defer s.loading.Wait()
		for range sharers {
			s.add()
		}
		s.watch()
	}()
	rig.Check(errors.Join(s.failed...))
	s.judge()
}

// A sharing is a group of sidecars under load.
//
// Owned by one goroutine; mu guards what loads write.
type sharing struct {
	*lab
	target, master string
	began          time.Time
	sidecars       []*rig.Process
	admitted       []uint64 // by second

	loading sync.WaitGroup
	mu      sync.Mutex
	loads   map[int]*rig.Loaded
	failed  []error
}

// add starts another sidecar and its load, which lasts until the end.
func (s *sharing) add() {
	p, addr := s.sidecar(s.target, s.master, fmt.Sprintf("RATE_LIMIT_LIMIT=%d", sharedLimit))
	i, left, ctx := len(s.sidecars), shareTime-time.Since(s.began), s.Ctx
	s.sidecars = append(s.sidecars, p)
	s.loading.Go(func() {
		loaded, err := rig.Load{URL: "http://" + addr + "/api/test", Rate: sharedRate,
			For: left.Truncate(time.Second)}.Run(ctx)
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.loads[i] = loaded; err != nil {
			s.failed = append(s.failed, err)
		}
	})
}

// watch reads in each second of the clock how much the target has served, and changes the
// sidecars between the reading and the next window.
func (s *sharing) watch() {
	first := time.Now().Truncate(time.Second).Add(late)
	t := result.NewTable("second | admitted | event")
	before := uint64(0)
	for n := 1; n < int(shareTime.Seconds())-1; n++ {
		s.Wait(first.Add(time.Duration(n) * time.Second))
		served := s.Served(s.target)
		s.admitted = append(s.admitted, served-before)
		what := ""
		switch n {
		case killAfter:
			what = "one killed"
			s.sidecars[0].Kill()
		case addAfter:
			what = "one started"
			s.add()
		}
		t.Add("%d | %d | %s", n, served-before, what)
		before = served
	}
	fmt.Fprintf(s.Out, "%s\n", t)
}

// starting is how many seconds the load takes to start.
const starting = 2

// judge adds the expectations: the limit holds in each second, and only requests to the killed
// sidecar fail.
func (s *sharing) judge() {
	sum := 0.0
	for n, admitted := range s.admitted[starting:] {
		off := float64(admitted)/sharedLimit - 1
		s.Never(off > sharedOff || off < -sharedOff, "second %d: %d admitted, the limit is %d", n+1+starting, admitted,
			sharedLimit)
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
