package serve

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"weir/advisor/policy"
)

const (
	// silentAfter is after how many of its intervals a proxy stops counting.
	silentAfter = 3
	// membersMax bounds the proxies that are known; one that is silent makes
	// room for a new one.
	membersMax = 1000
)

// errFull says that there is no room for another proxy.
var errFull = errors.New("1000 proxies report already; give each an instance name that stays the same")

// A member is one proxy.
type member struct {
	Name string `json:"name"`
	// The newest snapshot.
	At       time.Time     `json:"at"`
	Interval time.Duration `json:"interval"`
	Last     sums          `json:"last"` // per second
	// What it reported since the round began, in seconds and in counts.
	Seconds float64 `json:"seconds,omitempty"`
	Round   sums    `json:"round"`
}

// sums are what can be added up over time and over proxies.
type sums struct {
	Observed  float64 `json:"observed"`
	Forwarded float64 `json:"forwarded"`
	Rejected  float64 `json:"rejected"`
	Failed    float64 `json:"failed"`
	// Slow is p95 in seconds, times requests forwarded.
	Slow float64 `json:"slow"`
}

// add adds k times o.
func (s *sums) add(o sums, k float64) {
	s.Observed += k * o.Observed
	s.Forwarded += k * o.Forwarded
	s.Rejected += k * o.Rejected
	s.Failed += k * o.Failed
	s.Slow += k * o.Slow
}

// rates are a snapshot's sums per second.
func (s *snapshot) rates() sums {
	return sums{
		Observed: s.observed, Forwarded: s.forwarded, Rejected: s.observed * s.rejected,
		Failed: s.forwarded * s.errors, Slow: s.forwarded * s.p95,
	}
}

// A fleet adds up what several proxies report. Their snapshots come at different
// times, so the sum is taken in rounds: one ends when all that count have reported,
// or half an interval later. Who has not reported in a round is taken to go on as
// before, and one that has been silent for three of its intervals does not count.
// A single proxy ends a round with each snapshot, which is then passed on as it is.
//
// Owned by the core.
type fleet struct {
	Members []*member `json:"members"` // by name
	// Ended is when the last round did.
	Ended time.Time `json:"ended"`
	// Newest is the newest snapshot of all.
	Newest time.Time `json:"newest"`
}

func (f *fleet) find(name string) (at int, ok bool) {
	return slices.BinarySearchFunc(f.Members, name, func(m *member, name string) int { return cmp.Compare(m.Name, name) })
}

// last is when a proxy's newest snapshot ended; zero when there is none.
func (f *fleet) last(name string) time.Time {
	if i, ok := f.find(name); ok {
		return f.Members[i].At
	}
	return time.Time{}
}

// live says whether a proxy counts at the newest time.
func (f *fleet) live(m *member) bool { return f.Newest.Sub(m.At) <= silentAfter*m.Interval }

// living counts the proxies that count.
func (f *fleet) living() (n int) {
	for _, m := range f.Members {
		if f.live(m) {
			n++
		}
	}
	return n
}

// room makes room for another member.
func (f *fleet) room() error {
	if len(f.Members) < membersMax {
		return nil
	}
	oldest := slices.MinFunc(f.Members, func(a, b *member) int { return a.At.Compare(b.At) })
	if f.live(oldest) {
		return errFull
	}
	f.Members = slices.DeleteFunc(f.Members, func(m *member) bool { return m == oldest })
	return nil
}

// add takes in a snapshot that is newer than the last of its proxy. When it ends a
// round, ok is true and sum is what all of them saw.
func (f *fleet) add(s *snapshot) (sum policy.Snapshot, ok bool, err error) {
	at, there := f.find(s.instance)
	if !there {
		if err := f.room(); err != nil {
			return sum, false, err
		}
		at, _ = f.find(s.instance)
		f.Members = slices.Insert(f.Members, at, &member{Name: s.instance})
	}
	m := f.Members[at]
	m.At, m.Interval, m.Last = s.at, s.interval, s.rates()
	m.Seconds += s.interval.Seconds()
	m.Round.add(m.Last, s.interval.Seconds())
	if s.at.After(f.Newest) {
		f.Newest = s.at
	}
	longest, counted, heard := f.round()
	late := f.Newest.Sub(f.Ended) >= longest*3/2
	if !f.Newest.After(f.Ended) || !f.live(m) || heard < counted && !late {
		return sum, false, nil
	}
	return f.end(s, longest, counted), true, nil
}

// round counts the proxies that count, and those that were heard in this round.
func (f *fleet) round() (longest time.Duration, counted, heard int) {
	for _, m := range f.Members {
		if !f.live(m) {
			continue
		}
		counted++
		longest = max(longest, m.Interval)
		if m.Seconds > 0 {
			heard++
		}
	}
	return longest, counted, heard
}

// end ends the round with s and adds up.
func (f *fleet) end(s *snapshot, longest time.Duration, counted int) policy.Snapshot {
	interval := f.Newest.Sub(f.Ended)
	if interval > 2*longest { // there was a gap, of which nobody told
		interval = longest
	}
	sum := policy.Snapshot{At: f.Newest, Interval: interval, Limit: s.limit}
	var all sums
	for _, m := range f.Members {
		if f.live(m) {
			if m.Seconds > 0 {
				all.add(m.Round, 1/m.Seconds)
			} else {
				all.add(m.Last, 1)
			}
		}
		m.Seconds, m.Round = 0, sums{}
	}
	f.Ended = f.Newest
	if counted == 1 {
		sum.Interval = s.interval
		sum.Observed, sum.Forwarded, sum.RejectedShare = s.observed, s.forwarded, s.rejected
		sum.Errors, sum.P95 = s.errors, seconds(s.p95)
		return sum
	}
	sum.Observed, sum.Forwarded = all.Observed, all.Forwarded
	sum.RejectedShare = share(all.Rejected, all.Observed)
	sum.Errors = share(all.Failed, all.Forwarded)
	if all.Forwarded > 0 {
		sum.P95 = seconds(all.Slow / all.Forwarded)
	}
	return sum
}

// share is part of whole, from 0 to 1.
func share(part, whole float64) float64 {
	if whole <= 0 {
		return 0
	}
	return min(part/whole, 1)
}

// seconds is v as a Duration.
func seconds(v float64) time.Duration { return time.Duration(v * float64(time.Second)) }
