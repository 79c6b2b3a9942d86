package policy

import (
	"math"
	"slices"
	"time"
)

const (
	dwell       = 10 * time.Minute // between changes of the algorithm
	switchAfter = 3                // snapshots in a row that prefer another
	switchRaise = 0.10             // largest raise that goes with a change
	recent      = 20               // snapshots that show the traffic's character
	spikeSpan   = 2                // snapshots that a spike lasts at most
	spikesMax   = 16
)

// Traffic is the character of the demand.
type Traffic struct {
	Rates   []float64   `json:"rates"`            // the newest 20, requests/s
	Noise   []float64   `json:"noise"`            // variance of counts over their mean, from neighbours
	Bound   int         `json:"bound,omitempty"`  // snapshots in a row in which the limit refused …
	Free    int         `json:"free,omitempty"`   // … and in which it did not
	Rising  int         `json:"rising,omitempty"` // length of the present excursion
	Spikes  []time.Time `json:"spikes"`
	First   time.Time   `json:"first"`            // when watching began
	Leader  string      `json:"leader,omitempty"` // algorithm that would be better …
	Led     int         `json:"led,omitempty"`    // … for so many snapshots in a row
	Changed time.Time   `json:"changed"`          // when another algorithm was seen or recommended last
	InForce string      `json:"inForce,omitempty"`
}

// note takes in the demand of r.
func (t *Traffic) note(r reading) {
	if t.First.IsZero() {
		t.First = r.at
	}
	if n := len(t.Rates); n > 1 {
		a, b := t.Rates[n-2], t.Rates[n-1]
		if mean := (a + b + r.demand) / 3; mean > 0 {
			bend := a - 2*b + r.demand // a trend has none; of noise its variance is six times as large
			t.Noise = push(t.Noise, bend*bend/6*r.dt/mean)
		}
	}
	if r.binds {
		t.Bound, t.Free = t.Bound+1, 0
	} else {
		t.Bound, t.Free = 0, t.Free+1
	}
	if len(t.Rates) >= 5 {
		t.spike(r)
	}
	t.Rates = push(t.Rates, r.demand)
	if t.InForce != r.limit.Algorithm {
		if t.InForce != "" {
			t.Changed, t.Led = r.at, 0
		}
		t.InForce = r.limit.Algorithm
	}
}

func push(ring []float64, v float64) []float64 {
	if len(ring) >= recent {
		ring = slices.Delete(ring, 0, len(ring)-recent+1)
	}
	return append(ring, v)
}

// spike notes excursions above the median that end within spikeSpan snapshots.
func (t *Traffic) spike(r reading) {
	middle := median(t.Rates)
	spread := make([]float64, len(t.Rates))
	for i, v := range t.Rates {
		spread[i] = math.Abs(v - middle)
	}
	if r.demand > middle+4*max(median(spread), 0.03*middle) {
		t.Rising++
		return
	}
	if t.Rising > 0 && t.Rising <= spikeSpan {
		if len(t.Spikes) >= spikesMax {
			t.Spikes = slices.Delete(t.Spikes, 0, 1)
		}
		t.Spikes = append(t.Spikes, r.at)
	}
	t.Rising = 0
}

func (t *Traffic) spikes(now time.Time, span time.Duration) int {
	n := 0
	for _, at := range t.Spikes {
		if now.Sub(at) <= span {
			n++
		}
	}
	return n
}

func median(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(v))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}

// trend returns the Theil-Sen slope per snapshot and Kendall's tau of v.
func trend(v []float64) (slope, tau float64) {
	var slopes [recent * (recent - 1) / 2]float64
	n, sign := 0, 0
	for i := range v {
		for j := i + 1; j < len(v) && n < len(slopes); j++ {
			d := v[j] - v[i]
			slopes[n] = d / float64(j-i)
			n++
			if d > 0 {
				sign++
			} else if d < 0 {
				sign--
			}
		}
	}
	if n == 0 {
		return 0, 0
	}
	slices.Sort(slopes[:n])
	return (slopes[(n-1)/2] + slopes[n/2]) / 2, float64(sign) / float64(n)
}

// choose returns the limit with t's rate, in the algorithm that fits the traffic.
func (p *Policy) choose(r reading, v verdict, o Outlook, t *target) Limit {
	algorithm := r.limit.Algorithm
	if better := p.better(r, v, o); better != algorithm && t.rate <= r.rate*(1+switchRaise) {
		algorithm = better
		p.st.Traffic.Led, p.st.Traffic.Changed = 0, r.at
		t.because(AlgorithmSwitch)
	}
	if algorithm == r.limit.Algorithm && t.rate == r.rate {
		return p.inBounds(r)
	}
	return p.set.cut(algorithm, t.rate, p.burst(r, t.rate), r.limit)
}

// inBounds returns what is in force, or its nearest limit within the bounds.
func (p *Policy) inBounds(r reading) Limit {
	if r.rate >= p.set.LimitMin && r.rate <= p.set.LimitMax {
		return r.limit
	}
	rate := min(max(r.rate, p.set.LimitMin), p.set.LimitMax)
	return p.set.cut(r.limit.Algorithm, rate, p.burst(r, rate), r.limit)
}

// burst is how many requests at once delay the target's answers by half of what
// the SLO leaves.
func (p *Policy) burst(r reading, rate float64) float64 {
	amax := p.st.Capacity.Q20
	if p.st.Base <= 0 || amax <= 0 {
		return rate / 2
	}
	spare := max(0, p.slo()-max(r.p95, p.st.Base))
	return min(max(0.5*amax*spare, 0.1*rate), 2*rate)
}

// better returns the algorithm that should be in force: another one only when it
// led for some snapshots, the last change is long ago, and all is well.
func (p *Policy) better(r reading, v verdict, o Outlook) string {
	t := &p.st.Traffic
	current := r.limit.Algorithm
	scores := p.scores(r, v, o)
	mine, ok := scores[current]
	if !ok || len(t.Rates) < recent {
		return current
	}
	leader := current
	for _, a := range [...]string{Token, Sliding, Fixed} { // in this order, for the same answer each time
		if scores[a] >= mine+1 && (leader == current || scores[a] > scores[leader]) {
			leader = a
		}
	}
	if leader == current || leader != t.Leader {
		t.Leader, t.Led = leader, 0
	}
	if leader == current {
		return current
	}
	t.Led++
	since := t.Changed
	if since.IsZero() {
		since = t.First
	}
	if t.Led < switchAfter || r.at.Sub(since) < dwell || v.state != stateOK {
		return current
	}
	return leader
}

// scores counts what speaks for each algorithm that the policy chooses from.
func (p *Policy) scores(r reading, v verdict, o Outlook) map[string]int {
	t := &p.st.Traffic
	c := &p.st.Capacity
	dispersion := median(t.Noise)
	slope, tau := trend(t.Rates)
	level := median(t.Rates)
	rise := slope * 600 / r.dt
	at := func(d time.Duration) Point {
		q := o.within(d)
		if len(q) == 0 {
			return Point{}
		}
		return q[len(q)-1]
	}
	known := c.Q20 > 0 && len(o.Points) > 0
	quiet := known && at(15*time.Minute).Q99 < 0.6*c.Q20
	scores := map[string]int{
		Token: count(
			t.spikes(r.at, 30*time.Minute) >= 2,
			dispersion > 3,
			r.p95 < 0.6*p.slo(),
			r.admitted < 0.8*c.Q50),
		Sliding: count(
			rise > 0.15*level && tau > 0.6,
			level > 0 && at(10*time.Minute).Q50 > 1.15*level,
			known && at(10*time.Minute).Q95 > 0.85*c.Q20,
			v.state == stateWarn),
		Fixed: count(
			dispersion < 1.5,
			quiet,
			t.spikes(r.at, 2*time.Hour) == 0),
	}
	if t.Free < recent || !quiet { // a fixed window that refuses lets its crowd in at once, window by window
		scores[Fixed] = -1
	}
	return scores
}

func count(claims ...bool) int {
	n := 0
	for _, c := range claims {
		if c {
			n++
		}
	}
	return n
}
