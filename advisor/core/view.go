package core

import (
	"slices"
	"time"

	"weir/advisor/forecast"
	"weir/advisor/policy"
	"weir/advisor/series"
)

// A View is a copy of the state for display.
type View struct {
	Newest         time.Time // snapshot; zero: none
	Age            time.Duration
	Rounds         uint64
	Jumps          uint64 // of time
	Active         int    // number of proxies that count
	OwnStores      int    // of those, number with a store of their own
	Recommendation LatestRecommendation
	PolicyState    policy.State
	SLO            float64 // highest acceptable p95 in seconds; +Inf: unknown
	Mixtures       []forecast.Mixture
	Shifts         []LevelShift
	Proxies        []Proxy  // at most proxiesShown, those that count first
	Changes        []Change // the newest first
}

// A Proxy is a proxy that has reported.
type Proxy struct {
	Name      string    `json:"name"`
	At        time.Time `json:"at"`
	Interval  float64   `json:"interval"`
	Observed  float64   `json:"observedRps"`
	Forwarded float64   `json:"forwardedRps"`
	Counts    bool      `json:"counts"` // false: silent for too long
}

const proxiesShown = 200

// View returns a copy of the state.
func (c *Core) View() View {
	m := c.now
	v := View{
		Newest: m.newest().UTC(), Age: m.future.History().Age(), Rounds: m.Rounds, Jumps: c.jumps,
		Recommendation: m.Advice, PolicyState: m.policy.State(), SLO: m.policy.SLO(), Mixtures: m.future.Weights(),
		Shifts: slices.Clone(m.Shifts), Changes: slices.Clone(m.Changes),
	}
	slices.Reverse(v.Changes)
	var living, others []Proxy
	for _, p := range m.Fleet.Members {
		seen := Proxy{p.Name, p.At.UTC(), p.Interval.Seconds(), p.Last.Observed, p.Last.Forwarded, m.Fleet.live(p)}
		if !seen.Counts {
			others = append(others, seen)
			continue
		}
		living = append(living, seen)
		if p.Unshared {
			v.OwnStores++
		}
	}
	v.Active = len(living)
	v.Proxies = append(living, others...)
	v.Proxies = v.Proxies[:min(len(v.Proxies), proxiesShown)]
	return v
}

// Forecast returns when the forecast begins, zero if there is none, and its quantiles at
// even steps up to a horizon.
func (c *Core) Forecast(ahead, step time.Duration) (at time.Time, points []forecast.Point) {
	return c.now.future.History().Newest(), c.now.future.Outlook(ahead, step)
}

// Past returns the rows of a span that ends with the newest; step 0 means full
// resolution. Without rows the times are zero.
func (c *Core) Past(span, step time.Duration) (rows []series.Row, from, to time.Time) {
	h := c.now.future.History()
	if h.Seen() == 0 {
		return nil, from, to
	}
	to = h.Newest().UTC()
	from = to.Add(-span)
	if step == 0 {
		return h.Raw(from, to), from, to
	}
	end := to.Truncate(step)
	if end.Before(to) {
		end = end.Add(step) // the slot in progress
	}
	return h.View(from, end, step), from, to
}

// Recent returns the rows of a span before the newest, or as much as is known.
func (c *Core) Recent(span, step time.Duration) []series.Row {
	h := c.now.future.History()
	return h.View(h.Newest().Add(-min(span, h.Age())), h.Newest(), step)
}

// Timeline returns the history of limits and capacity: a span at the finest available
// resolution, and a longer one coarsely.
func (c *Core) Timeline(span, long time.Duration) (fine, coarse []SlotValues) {
	newest := c.now.newest()
	return c.now.track.since(newest.Add(-span)), c.now.track.quarters.since(newest.Add(-long).Unix())
}
