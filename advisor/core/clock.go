package core

import (
	"slices"
	"time"
)

const (
	// What is further from the newest than that is of another time …
	jumpMin   = time.Hour
	jumpSpans = 10 // … or than so many intervals
	// … but ahead of proxies that report, so that one wrong clock does not silence them.
	crowdMin = 5 * time.Minute
	// gapMax is the longest silence that the memory outlives.
	gapMax = 35 * 24 * time.Hour
	// oldMax is how old a snapshot may be that is answered though another of its proxy
	// is newer.
	oldMax = time.Minute
	// aheadMin and backMin are how many snapshots of another time make it believed.
	aheadMin, backMin = 2, 3
)

// A ruling is what a clock says of a snapshot.
type ruling uint8

const (
	rulingNow    ruling = iota // it is of the time we are in
	rulingLate                 // it is not newer than its proxy's newest, by less than a minute
	rulingOld                  // it is older than that
	rulingAhead                // it is of a time ahead, which is not believed yet
	rulingBehind               // it is of a time past, which is not believed yet
	rulingGap                  // a time ahead is believed: there was a silence
	rulingOther                // another time is believed, to which nothing leads
)

// A clock rules which time it is from the times of the snapshots alone. Another time
// is believed when enough snapshots in a row agree on it, or more proxies than are in
// ours.
//
// Owned by its Core.
type clock struct {
	strangers []stranger // one for each proxy, the one heard last at the end
	run       int        // how many came without one of our time between
	since     time.Time  // the first of them
}

// A stranger is a proxy that reports another time.
type stranger struct {
	name string
	at   time.Time // of its newest snapshot
}

// rule takes in a snapshot.
func (c *clock) rule(s *Snapshot, f *fleet) ruling {
	newest, own := f.Newest, f.last(s.Instance)
	if newest.IsZero() {
		return rulingNow
	}
	reach := max(jumpMin, jumpSpans*s.Interval)
	ahead := reach
	if n, shortest, _ := f.others(func(name string) bool { return name == s.Instance }); n > 0 {
		ahead = max(crowdMin, jumpSpans*shortest)
	}
	switch {
	case s.At.Sub(newest) > ahead:
		if !c.believed(s, f, reach, aheadMin) {
			return rulingAhead
		}
		if s.At.Sub(newest) <= gapMax {
			return rulingGap
		}
		return rulingOther
	case newest.Sub(s.At) > reach:
		if !c.believed(s, f, reach, backMin) {
			return rulingBehind
		}
		return rulingOther
	case own.Sub(s.At) > oldMax && !own.IsZero():
		return rulingOld
	case !s.At.After(own):
		return rulingLate
	}
	c.interrupt(s)
	return rulingNow
}

// interrupt takes in that a proxy is in our time.
func (c *clock) interrupt(s *Snapshot) {
	c.run = 0
	c.strangers = slices.DeleteFunc(c.strangers, func(o stranger) bool { return o.name == s.Instance })
}

// believed takes in a snapshot of another time and reports whether enough agree on
// it. When it is so, the clock begins anew.
func (c *clock) believed(s *Snapshot, f *fleet, reach time.Duration, enough int) bool {
	if !c.agrees(s, reach) {
		*c = clock{}
	}
	if c.run == 0 {
		c.since = s.At
	}
	c.run++
	c.strangers = append(slices.DeleteFunc(c.strangers, func(o stranger) bool { return o.name == s.Instance }), stranger{s.Instance, s.At})
	others, _, longest := f.others(func(name string) bool {
		return slices.ContainsFunc(c.strangers, func(o stranger) bool { return o.name == name })
	})
	silent := s.At.Sub(c.since) >= silentAfter*longest // those of our time
	if n := len(c.strangers); c.run < enough || !silent {
		if n < 2 || n <= others {
			return false
		}
	}
	*c = clock{}
	return true
}

// agrees reports whether s goes on from the stranger heard last.
func (c *clock) agrees(s *Snapshot, reach time.Duration) bool {
	if len(c.strangers) == 0 {
		return true
	}
	last := c.strangers[len(c.strangers)-1]
	step := s.At.Sub(last.at)
	return step.Abs() <= reach && (step > 0 || s.Instance != last.name)
}
