package core

import (
	"slices"
	"time"
)

const (
	// A snapshot that differs from the newest by more than this is of another time …
	jumpMin   = time.Hour
	jumpSpans = 10 // … or by more than this many intervals
	// … but only this far ahead while other proxies report, so that one wrong clock does
	// not silence them.
	crowdMin          = 5 * time.Minute
	gapMax            = 35 * 24 * time.Hour // longest pause after which what was learned is kept
	oldMax            = time.Minute         // by which one that is answered may be older than its proxy's newest
	aheadMin, backMin = 2, 3                // snapshots of another time that are needed to accept it
)

// A timeVerdict is a clock's verdict about a snapshot.
type timeVerdict uint8

const (
	rulingNow   timeVerdict = iota // of the current time
	rulingLate                     // not newer than its proxy's newest, by less than a minute
	rulingOld                      // older than that, or of an earlier time that is not accepted yet
	rulingAhead                    // of a later time that is not accepted yet
	rulingGap                      // a later time is accepted, after a pause
	rulingOther                    // an unrelated time is accepted
)

// A clock determines the current time only from the times of the snapshots. Another time is
// accepted when enough snapshots in a row agree on it, or when more proxies report it than the
// current time.
//
// Owned by its Core.
type clock struct {
	strangers []outlier // one per proxy, the last one to report at the end
	run       int       // how many reported without a snapshot of the current time in between
	since     time.Time // time of the first of them
}

// A outlier is a proxy that reports another time.
type outlier struct {
	name string
	at   time.Time // of its newest snapshot
}

// rule returns the verdict about a snapshot.
func (c *clock) rule(s *Snapshot, f *fleet) timeVerdict {
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
		if !c.confirmed(s, f, reach, aheadMin) {
			return rulingAhead
		}
		if s.At.Sub(newest) <= gapMax {
			return rulingGap
		}
		return rulingOther
	case newest.Sub(s.At) > reach:
		if !c.confirmed(s, f, reach, backMin) {
			return rulingOld
		}
		return rulingOther
	case own.Sub(s.At) > oldMax && !own.IsZero():
		return rulingOld
	case !s.At.After(own):
		return rulingLate
	}
	c.run = 0
	c.strangers = without(c.strangers, s.Instance)
	return rulingNow
}

// without removes a proxy.
func without(list []outlier, name string) []outlier {
	return slices.DeleteFunc(list, func(o outlier) bool { return o.name == name })
}

// confirmed records a snapshot of another time and reports whether enough snapshots agree on it.
// If so, the clock starts again with that time.
func (c *clock) confirmed(s *Snapshot, f *fleet, reach time.Duration, enough int) bool {
	if !c.agrees(s, reach) {
		*c = clock{}
	}
	if c.run == 0 {
		c.since = s.At
	}
	c.run++
	c.strangers = append(without(c.strangers, s.Instance), outlier{s.Instance, s.At})
	others, _, longest := f.others(func(name string) bool {
		return slices.ContainsFunc(c.strangers, func(o outlier) bool { return o.name == name })
	})
	silent := s.At.Sub(c.since) >= silentAfter*longest // of those in the current time
	if n := len(c.strangers); c.run < enough || !silent {
		if n < 2 || n <= others {
			return false
		}
	}
	*c = clock{}
	return true
}

// agrees reports whether s continues the time of the stranger that reported last.
func (c *clock) agrees(s *Snapshot, reach time.Duration) bool {
	if len(c.strangers) == 0 {
		return true
	}
	last := c.strangers[len(c.strangers)-1]
	step := s.At.Sub(last.at)
	return step.Abs() <= reach && (step > 0 || s.Instance != last.name)
}
