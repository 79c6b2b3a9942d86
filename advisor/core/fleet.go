package core

import (
	"cmp"
	"errors"
	"math"
	"slices"
	"time"

	"weir/advisor/policy"
)

const (
	silentAfter = 3                // intervals without a snapshot after which a proxy stops counting
	spanMin     = 30 * time.Second // expected at least, although a proxy whose gate holds requests back reports more often
	unprovenMax = 5 * time.Minute  // of an interval that was only reported and not observed yet
	membersMax  = 1000             // known proxies; a silent one makes room for a new one
)

// errFull means that there is no room for another proxy.
var errFull = errors.New("1000 proxies already report; give each an instance name that does not change")

// A member is one proxy that reports.
type member struct {
	Name string `json:"name"`
	// The newest snapshot.
	At       time.Time     `json:"at"`
	Interval time.Duration `json:"interval"`
	Last     sums          `json:"last"`  // per second
	Limit    float64       `json:"limit"` // in force, permits per second; 0: none
	// Values that cannot be added up: whether it has a store of its own, and whether the
	// limit decided.
	Unshared bool        `json:"unshared,omitempty"`
	Mode     policy.Mode `json:"mode,omitempty"`
	// Proven is the part of Interval that has passed since the previous snapshot.
	Proven time.Duration `json:"proven,omitempty"`
	// First and Heard are the newest time of all proxies at its first and its last
	// report, Passed is the fleet's at that time. Unlike At they do not depend on its own
	// clock.
	First  time.Time     `json:"first"`
	Heard  time.Time     `json:"heard"`
	Passed time.Duration `json:"passed"`
	// What it reported since the round began, in seconds and counts.
	Seconds float64 `json:"seconds,omitempty"`
	Round   sums    `json:"round"`
}

// sums are values that can be added up over time and over proxies.
type sums struct {
	Observed  float64 `json:"observed"`
	Forwarded float64 `json:"forwarded"`           // including the delivered
	Delivered float64 `json:"delivered,omitempty"` // stored before
	Rejected  float64 `json:"rejected"`
	Ended     float64 `json:"ended"`
	Failed    float64 `json:"failed"` // of the ended
	Slow      float64 `json:"slow"`   // p95 in seconds, times requests ended
	Places    float64 `json:"places"` // the gates' limits
	Bound     float64 `json:"bound"`  // the same while they held requests back
	InFlight  float64 `json:"inFlight,omitempty"`
}

// add adds o multiplied by k.
func (s *sums) add(o sums, k float64) {
	s.Observed += k * o.Observed
	s.Forwarded += k * o.Forwarded
	s.Delivered += k * o.Delivered
	s.Rejected += k * o.Rejected
	s.Failed += k * o.Failed
	s.Slow += k * o.Slow
	s.Ended += k * o.Ended
	s.Places += k * o.Places
	s.Bound += k * o.Bound
	s.InFlight += k * o.InFlight
}

// rates returns a snapshot's sums per second.
func (s *Snapshot) rates() sums {
	ended := s.Ended / s.Interval.Seconds()
	return sums{
		Observed: s.Observed, Forwarded: s.Forwarded + s.Delivered, Delivered: s.Delivered, Rejected: s.Observed * s.Rejected,
		Ended: ended, Failed: ended * s.Errors, Slow: ended * s.P95,
		Places: s.GateLimit, Bound: s.GateLimit * s.GateShare, InFlight: s.InFlight,
	}
}

// A fleet adds up the reports of several proxies. Their snapshots come at different times
// and may differ in length, so the sum is taken in rounds. A round ends when the proxy
// that ended the last one reports again, or when any other reports twice. A proxy that
// has not reported in a round is assumed to continue as before; one that has been silent
// for three of its intervals does not count. If a proxy is late and another has appeared
// since, it is assumed to have been restarted under another name, and the new one
// replaces it. A single proxy ends a round with each snapshot.
//
// Owned by its Core.
type fleet struct {
	Members []*member `json:"members"` // by name
	Ended   time.Time `json:"ended"`   // end of the last round
	Ender   string    `json:"ender"`   // the proxy that ended it
	Newest  time.Time `json:"newest"`  // time of the newest snapshot of all
	// Passed is how long the proxies have reported. It does not jump when the clock of
	// one does: a snapshot advances it by at most its interval.
	Passed time.Duration `json:"passed"`
}

func (f *fleet) find(name string) (at int, ok bool) {
	return slices.BinarySearchFunc(f.Members, name, func(m *member, name string) int { return cmp.Compare(m.Name, name) })
}

// last returns the end of a proxy's newest snapshot; zero if there is none.
func (f *fleet) last(name string) time.Time {
	if i, ok := f.find(name); ok {
		return f.Members[i].At
	}
	return time.Time{}
}

// first reports whether a proxy has sent at most one snapshot.
func (f *fleet) first(name string) bool {
	i, ok := f.find(name)
	return ok && f.Members[i].Proven == 0
}

// span returns the expected interval of a proxy.
func (f *fleet) span(m *member) time.Duration {
	return max(spanMin, min(m.Interval, max(m.Proven, unprovenMax)))
}

// live reports whether a proxy counts at the newest time.
func (f *fleet) live(m *member) bool {
	span := f.span(m)
	return f.Passed-m.Passed <= silentAfter*span && f.Newest.Sub(m.Heard) <= max(jumpMin, jumpSpans*span)
}

// others counts the proxies that count, without some, and returns the shortest and
// longest of their intervals.
func (f *fleet) others(except func(name string) bool) (n int, shortest, longest time.Duration) {
	for _, m := range f.Members {
		if !f.live(m) || except(m.Name) {
			continue
		}
		if n == 0 || m.Interval < shortest {
			shortest = m.Interval
		}
		longest = max(longest, f.span(m))
		n++
	}
	return n, shortest, longest
}

// room removes a silent member if there is no room for another one.
func (f *fleet) room() error {
	if len(f.Members) < membersMax {
		return nil
	}
	oldest := slices.MinFunc(f.Members, func(a, b *member) int { return a.Heard.Compare(b.Heard) })
	if f.live(oldest) {
		return errFull
	}
	f.Members = slices.DeleteFunc(f.Members, func(m *member) bool { return m == oldest })
	return nil
}

// add processes a snapshot that is newer than the last of its proxy. If it ends a round,
// ok is true and sum is the total of all proxies.
func (f *fleet) add(s *Snapshot) (sum policy.Snapshot, ok bool, err error) {
	m, err := f.member(s)
	if err != nil {
		return sum, false, err
	}
	m.At, m.Interval, m.Last, m.Heard, m.Passed = s.At, s.Interval, s.rates(), f.Newest, f.Passed
	m.Limit, m.Unshared, m.Mode = 0, s.OwnStore, s.Mode
	if rate := s.Limit.Rate(); !math.IsInf(rate, 0) {
		m.Limit = rate
	}
	if !f.Newest.After(f.Ended) {
		return sum, false, nil // a straggler of the previous round
	}
	ends := m.Seconds > 0 || m.Name == f.Ender || f.Ended.IsZero()
	m.Seconds += s.Interval.Seconds()
	m.Round.add(m.Last, s.Interval.Seconds())
	if !ends {
		return sum, false, nil
	}
	return f.end(s, m), true, nil
}

// member returns the sender of a snapshot, and advances Newest.
func (f *fleet) member(s *Snapshot) (*member, error) {
	at, there := f.find(s.Instance)
	if !there {
		if err := f.room(); err != nil {
			return nil, err
		}
		at, _ = f.find(s.Instance)
		f.Members = slices.Insert(f.Members, at, &member{Name: s.Instance})
	}
	m := f.Members[at]
	if s.At.After(f.Newest) {
		if !f.Newest.IsZero() {
			f.Passed += min(s.At.Sub(f.Newest), s.Interval)
		}
		f.Newest = s.At
	}
	if there {
		m.Proven = min(s.Interval, s.At.Sub(m.At))
	} else {
		m.First = f.Newest
	}
	return m, nil
}

// replaced returns the proxies that are late and have a successor: one for each that
// appeared after they were heard last.
func (f *fleet) replaced() map[*member]bool {
	var late, there []*member
	for _, m := range f.Members {
		switch {
		case !f.live(m):
		case f.Passed-m.Passed > f.span(m)*6/5:
			late = append(late, m)
		default:
			there = append(there, m)
		}
	}
	if len(late) == 0 {
		return nil
	}
	slices.SortStableFunc(late, func(a, b *member) int { return a.Heard.Compare(b.Heard) })
	slices.SortStableFunc(there, func(a, b *member) int { return a.First.Compare(b.First) })
	gone := make(map[*member]bool)
	for _, m := range there {
		if n := len(gone); n < len(late) && m.First.After(late[n].Heard) {
			gone[late[n]] = true
		}
	}
	return gone
}

// end ends the round with s, sent by m, and adds up.
func (f *fleet) end(s *Snapshot, m *member) policy.Snapshot {
	sum := policy.Snapshot{At: f.Newest, Interval: min(time.Duration(m.Seconds*float64(time.Second)), IntervalMax),
		Limit: s.Limit}
	replaced := f.replaced()
	var all sums
	unshared := 0.0
	for _, o := range f.Members {
		if f.live(o) && !replaced[o] {
			if o.Seconds > 0 {
				all.add(o.Round, 1/o.Seconds)
			} else {
				all.add(o.Last, 1)
			}
			if o.Unshared {
				unshared += o.Limit
			}
			sum.Mode = max(sum.Mode, o.Mode)
		}
		o.Seconds, o.Round = 0, sums{}
	}
	f.Ended, f.Ender = f.Newest, m.Name
	if m.Unshared && m.Limit > 0 && unshared > m.Limit { // theirs are added up, too
		sum.Limit = times(s.Limit, unshared/m.Limit)
	}
	all.into(&sum)
	return sum
}

// into writes sums per second to the policy's form.
func (s *sums) into(sum *policy.Snapshot) {
	sum.Observed, sum.Forwarded, sum.Delivered = s.Observed, s.Forwarded, s.Delivered
	sum.RejectedShare, sum.Errors = share(s.Rejected, s.Observed), share(s.Failed, s.Ended)
	if s.Ended > 0 {
		sum.P95 = seconds(s.Slow / s.Ended)
	}
	sum.Ended = s.Ended * sum.Interval.Seconds()
	sum.GateLimit, sum.GateShare, sum.InFlight = s.Places, share(s.Bound, s.Places), s.InFlight
}

// share returns part/whole, from 0 to 1. It is 0 if whole is 0.
func share(part, whole float64) float64 {
	if whole <= 0 {
		return 0
	}
	return min(part/whole, 1)
}

// seconds converts v to a Duration.
func seconds(v float64) time.Duration { return time.Duration(v * float64(time.Second)) }
