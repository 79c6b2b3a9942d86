package closedloop

import (
	"fmt"
	"math"
	"reflect"
	"testing"
	"time"

	"weir/proxy/limit"
)

// steady returns a scenario with a constant demand.
func steady(rate float64, seconds int, change func(*Scenario)) *Scenario {
	s := &Scenario{Target: Target{Workers: 8, ServiceMean: ServiceMean, ServiceCV: ServiceCV},
		SnapshotInterval: 30 * time.Second, Seed: 7,
		Demand: Demand{Start: time.Date(2026, 1, 5, 12, 0, 0, 0, time.UTC), Step: time.Second,
			Rates: make([]float64, seconds), Dispersion: 1}}
	for i := range s.Demand.Rates {
		s.Demand.Rates[i] = rate
	}
	if change != nil {
		change(s)
	}
	return s
}

func mustRun(t *testing.T, s *Scenario, c Strategy) *Result {
	t.Helper()
	r, err := Run(s, c.New(s))
	if err != nil {
		t.Fatalf("%s: %v", c.Name, err)
	}
	return r
}

// static keeps a limit of factor times the capacity at the start.
func static(factor float64) Strategy {
	return Strategy{"static",
		func(s *Scenario) Control { return Control{Initial: tokens(factor * s.Target.Capacity(0))} }}
}

func everybody() []Strategy { return append(Strategies(), static(0.9), static(1.2)) }

// With every strategy the outcomes add up to the requests offered, and only clients
// that failed retry.
func TestRequestsAreConserved(t *testing.T) {
	s := steady(250, 120, func(s *Scenario) {
		s.Retry = 0.5
		s.Target.Stages = []Stage{{Factor: 1}, {From: 40, Factor: 0.6, Errors: 0.2}, {From: 80, Factor: 2}}
	})
	for _, c := range everybody() {
		r := mustRun(t, s, c)
		if r.Offered != r.Rejected+r.Gated+r.Shed+r.TimedOut+r.Answered {
			t.Errorf("%s: %d offered, %d first; %d rejected, %d gated, %d shed, %d timed out, %d answered", c.Name,
				r.Offered, r.First, r.Rejected, r.Gated, r.Shed, r.TimedOut, r.Answered)
		}
		if r.Good+r.Failed > r.Answered || r.Needless > r.Rejected || r.Offered > 4*r.First {
			t.Errorf("%s: %+v", c.Name, r)
		}
	}
}

// The same scenario gives the same result, and another seed another one. The first requests
// do not depend on the strategy.
func TestSeedDecides(t *testing.T) {
	s := steady(200, 65, func(s *Scenario) { s.Retry, s.Demand.Dispersion = 0.5, 2 })
	first := mustRun(t, s, unprotected()).First
	for _, c := range everybody() {
		a, b := mustRun(t, s, c), mustRun(t, s, c)
		if !reflect.DeepEqual(a, b) {
			t.Errorf("%s: played twice, %+v and %+v", c.Name, a, b)
		}
		if a.First != first {
			t.Errorf("%s: %d first requests, without a limit %d", c.Name, a.First, first)
		}
		other := *s
		other.Seed++
		if r := mustRun(t, &other, c); r.First == a.First && r.Good == a.Good {
			t.Errorf("%s: another seed gave the same", c.Name)
		}
	}
}

// erlangWait is the mean wait of M/M/c: C(c, a) / (cμ − λ).
func erlangWait(c int, lambda, mu float64) float64 {
	a := lambda / mu
	b := 1.0 // Erlang's loss formula, by its recursion
	for k := 1; k <= c; k++ {
		b = a * b / (float64(k) + a*b)
	}
	u := a / float64(c)
	delayed := b / (1 - u + u*b)
	return delayed / (float64(c)*mu - lambda)
}

// The mean wait agrees with queueing theory: exactly for M/M/c, and for M/G/c with the
// approximation of Lee and Longton, which multiplies by (1 + cv²)/2.
func TestQueueWaitsAsTheorySays(t *testing.T) {
	for _, test := range []struct {
		workers int
		load    float64
		cv      float64
		within  float64 // relative
	}{{1, 0.7, 1, 0.06}, {8, 0.8, 1, 0.07}, {8, 0.9, 1, 0.1}, {64, 0.95, 1, 0.2}, {1, 0.7, 0.3, 0.06}, {1, 0.7, 2, 0.15}} {
		t.Run(fmt.Sprintf("%d workers at %.2f, cv %.1f", test.workers, test.load, test.cv), func(t *testing.T) {
			mu := 20.0
			lambda := test.load * mu * float64(test.workers)
			q := newQueue(&Target{Workers: test.workers, ServiceMean: 1 / mu, ServiceCV: test.cv}, 3)
			r := newRand(11, streamArrivals)
			now, sum, n := 0.0, 0.0, 250_000
			for range n {
				now += r.ExpFloat64() / lambda
				start, _, _, _ := q.serve(now)
				sum += start - now
			}
			got, want := sum/float64(n), erlangWait(test.workers, lambda, mu)*(1+test.cv*test.cv)/2
			if math.Abs(got-want) > test.within*want {
				t.Errorf("mean wait %.2f ms, theory says %.2f ms", 1000*got, 1000*want)
			}
		})
	}
}

// The target serves its capacity times the factor, also if that is not a whole number of
// workers, and if it changes while the queue is full.
func TestStagesAreCapacity(t *testing.T) {
	s := steady(500, 900, func(s *Scenario) {
		s.Target.Stages = []Stage{{Factor: 1}, {From: 300, Factor: 0.6}, {From: 600, Factor: 1.45}}
	})
	q := newQueue(&s.Target, 5)
	r := newRand(5, streamArrivals)
	var done [3]float64
	for now := 0.0; now < 900; now += r.ExpFloat64() / 500 {
		start, end, _, full := q.serve(now)
		if !full && start < 900 && end < 900 {
			done[int(end)/300]++
		}
	}
	for i, factor := range []float64{1, 0.6, 1.45} {
		want := 300 * 160 * factor
		if math.Abs(done[i]-want) > 0.03*want {
			t.Errorf("stage %d: %.0f done, the capacity is %.0f", i, done[i], want)
		}
	}
}

// No more is admitted than the limit allows: its rate, and its burst once.
func TestAdmittedKeepToTheLimit(t *testing.T) {
	const seconds = 300
	for _, c := range []limit.Config{
		{Algorithm: limit.Token, Capacity: 20, FillRate: 90},
		{Algorithm: limit.Fixed, Limit: 90, Window: 1},
		{Algorithm: limit.Sliding, Limit: 900, Window: 10},
	} {
		s := steady(400, seconds, func(s *Scenario) { s.Demand.Dispersion = 2 })
		r := mustRun(t, s, Strategy{"", func(*Scenario) Control { return Control{Initial: c} }})
		l, err := limit.New(c)
		if err != nil {
			t.Fatal(err)
		}
		admitted := float64(r.Offered - r.Rejected)
		most := l.Rate()*seconds + float64(l.Burst())
		if admitted > most || admitted < 0.97*l.Rate()*seconds {
			t.Errorf("%v: %.0f admitted, at most %.0f may be", c.Algorithm, admitted, most)
		}
	}
}

// Without a limit, retries keep a target overloaded after a crowd of three minutes has
// gone: the queue stays full. With a limit it recovers.
func TestCollapseOutlivesItsCause(t *testing.T) {
	crowd := func(s *Scenario) {
		s.Retry = 0.5
		for i := 300; i < 480; i++ {
			s.Demand.Rates[i] = 320
		}
	}
	late := func(c Strategy, retry float64) (good, demand float64) {
		s := steady(125, 1500, crowd)
		s.Retry, s.Record = retry, true
		for _, m := range mustRun(t, s, c).Timeline {
			if m.At >= 900 { // seven minutes after
				good, demand = good+m.Good, demand+m.Demand
			}
		}
		return good, demand
	}
	if good, demand := late(unprotected(), 0.5); good > 0.3*demand {
		t.Errorf("no limit, clients come again: %.2f of the demand is served in time, the collapse should last", good/demand)
	}
	if good, demand := late(unprotected(), 0); good < 0.95*demand {
		t.Errorf("no limit, nobody comes again: %.2f of the demand is served in time, it should recover", good/demand)
	}
	if good, demand := late(static(0.9), 0.5); good < 0.95*demand {
		t.Errorf("a limit of 0.9 C: %.2f of the demand is served in time", good/demand)
	}
}
