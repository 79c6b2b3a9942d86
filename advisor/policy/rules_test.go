package policy

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/advisor/forecast"
)

// seen returns a snapshot of a target with a capacity of 160/s, a minute after the last, with
// a limit of 100/s unless changed.
func seen(i int, change func(*Snapshot)) Snapshot {
	s := Snapshot{
		At: start.Add(time.Duration(i) * time.Minute), Interval: time.Minute,
		Observed: 60, Forwarded: 60, P95: 140 * time.Millisecond,
		Limit: Limit{Algorithm: Token, Capacity: 20, FillRate: 100},
	}
	if change != nil {
		change(&s)
	}
	return s
}

// watched returns a policy that has seen a target at low load for 20 minutes.
func watched(set Settings) (*Policy, int) {
	p := New(set)
	for i := range 20 {
		p.Advise(seen(i, nil), DemandForecast{})
	}
	return p, 20
}

// expect returns a forecast with one demand per minute.
func expect(demand ...float64) DemandForecast {
	o := DemandForecast{Step: time.Minute}
	for _, d := range demand {
		o.Points = append(o.Points, forecast.Point{Q05: 0.9 * d, Q50: d, Q80: 1.02 * d, Q95: 1.05 * d, Q99: 1.08 * d})
	}
	return o
}

// behind changes a snapshot: a gate protects the target.
func behind(share float64, change func(*Snapshot)) func(*Snapshot) {
	return func(s *Snapshot) {
		s.GateLimit, s.GateShare = 30, share
		if change != nil {
			change(s)
		}
		s.Ended = s.Forwarded * 60
	}
}

// refusing changes a snapshot: a limit of rate refuses some requests.
func refusing(rate float64) func(*Snapshot) {
	return func(s *Snapshot) {
		s.Limit.FillRate, s.Observed, s.Forwarded, s.RejectedShare = rate, 2*rate, rate, 0.5
	}
}

func TestRules(t *testing.T) {
	steady := slices.Repeat([]float64{60}, 15)
	for _, c := range []struct {
		name      string
		change    func(*Snapshot)
		outlook   DemandForecast
		low, high float64 // rate
		why       Reason
		reason    string // part of it
	}{
		{"all is well", nil, expect(steady...), 100, 100, Hold, "forecast=60 req/s, the limit fits"},
		{"no forecast", nil, DemandForecast{}, 100, 100, NoForecast, "no forecast"},
		{"a rise within the next minute", nil, expect(105, 105, 105), 120, 122, ForecastRise,
			"forecast=105 req/s, raised ahead of it"},
		{"a rise that is far enough away", nil, expect(60, 60, 60, 60, 60, 60, 110), 100, 100, Hold, "the limit fits"},
		{"it refuses and the target is well", refusing(100), DemandForecast{}, 101, 125, Refusing, "50.0 % refused"},
		{"it refuses while what was refused before is delivered",
			func(s *Snapshot) { s.Forwarded, s.Delivered, s.RejectedShare = 98, 40, 0.02 }, expect(steady...), 100, 100,
			Hold, "the limit fits"},
		{"slow", func(s *Snapshot) { s.P95 = 500 * time.Millisecond }, DemandForecast{}, 90, 96, Slow,
			"the target becomes slow (p95=0.5 s of 0.42 s"},
		{"overloaded", func(s *Snapshot) { s.Forwarded, s.Observed, s.P95, s.Errors = 100, 100, 2*time.Second, 0.4 },
			DemandForecast{}, 50, 86, Overload, "the target is overloaded"},
		{"a few errors among a few requests", func(s *Snapshot) { s.Observed, s.Forwarded, s.Errors = 0.2, 0.2, 0.1 },
			DemandForecast{}, 100, 100, Hold, ""},
		{"nothing is answered", func(s *Snapshot) { refusing(100)(s); s.P95 = 0 }, expect(300), 100, 100, LittleTraffic,
			"too little traffic"},
		{"the store is away, and all is let through",
			func(s *Snapshot) { s.Mode, s.Forwarded, s.P95, s.Errors = FailOpen, 400, 2*time.Second, 0.6 }, DemandForecast{},
			100,
			100, NotEnforced, "did not decide"},
		{"recommendations are not put in force", func(s *Snapshot) { refusing(100)(s); s.Mode = Shadow }, DemandForecast{},
			101,
			125, Refusing, "50.0 % refused"},
		{"the limiter is off", func(s *Snapshot) { s.Limit = Limit{Algorithm: Off} }, DemandForecast{}, math.Inf(1),
			math.Inf(1),
			LimiterOff, "stays off"},
		{"an unknown algorithm", func(s *Snapshot) { s.Limit.Algorithm = "best" }, DemandForecast{}, 0, 0, InvalidInput,
			"impossible numbers"},
		{"not a number", func(s *Snapshot) { s.Errors = math.NaN() }, DemandForecast{}, 100, 100, InvalidInput,
			"impossible numbers"},
		{"more refused than all", func(s *Snapshot) { s.RejectedShare = 1.1 }, DemandForecast{}, 100, 100, InvalidInput,
			"impossible numbers"},
		{"an old snapshot", func(s *Snapshot) { s.At = start }, DemandForecast{}, 100, 100, Stale, "not newer"},
		{"somebody raised it by hand", func(s *Snapshot) { s.Limit.FillRate = 120 }, expect(steady...), 120, 120, Hold,
			"the limit fits"},
		{"somebody chose gcra", func(s *Snapshot) { s.Limit = Limit{Algorithm: GCRA, Limit: 100, Window: 1, Burst: 10} },
			expect(105, 105), 120, 122, ForecastRise, "raised ahead"},
		{"somebody chose leaky", func(s *Snapshot) { s.Limit = Limit{Algorithm: Leaky, Capacity: 30, FillRate: 100} },
			expect(105, 105), 120, 122, ForecastRise, "raised ahead"},
		{"somebody chose sliding_log",
			func(s *Snapshot) { s.Limit = Limit{Algorithm: SlidingLog, Limit: 700, Window: 7} }, expect(105, 105), 120, 122,
			ForecastRise, "raised ahead"},
		{"somebody went beyond the bounds", func(s *Snapshot) { s.Limit.FillRate = 20000 }, expect(steady...), 5000, 5000,
			BoundMax, ""},

		{"gate: all is well", behind(0, nil), expect(steady...), 100, 100, Hold, "the limit fits"},
		{"gate: it refuses and the gate is idle", behind(0, refusing(100)), DemandForecast{}, 160, 200, Refusing,
			"50.0 % refused"},
		{"gate: it refuses crowds", behind(0,
			func(s *Snapshot) { s.Observed, s.Forwarded, s.RejectedShare = 70, 60, 0.14 }), expect(steady...), 100, 100,
			Hold, "the limit fits"},
		{"gate: it refuses and the gate binds", behind(0.8, refusing(100)), DemandForecast{}, 100, 100, AtCapacity,
			"the target can serve"},
		{"gate: it refuses, the gate is idle and a route is slow",
			behind(0, func(s *Snapshot) { refusing(100)(s); s.P95 = time.Second }), DemandForecast{}, 160, 200, Refusing,
			"50.0 % refused"},
		{"gate: it refuses and requests fail", behind(0, func(s *Snapshot) { refusing(100)(s); s.Errors = 0.2 }),
			expect(400), 100, 100, BackendFault, "reasons other than load"},
		{"gate: the store is away", behind(1, func(s *Snapshot) { s.Mode, s.Forwarded = FailOpen, 400 }), expect(400),
			100, 100, NotEnforced, "did not decide"},
		{"gate: nothing is answered", behind(0, func(s *Snapshot) { refusing(100)(s); s.P95, s.Forwarded = 0, 0 }),
			expect(300), 100, 100, LittleTraffic, "too little traffic"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, i := watched(with(160))
			r := p.Advise(seen(i, c.change), c.outlook)
			if rate := r.Rate(); rate < c.low || rate > c.high {
				t.Errorf("limit %v/s, want %v to %v: %v %s", rate, c.low, c.high, r.Codes, r.Reason)
			}
			if !slices.Contains(r.Codes, c.why.Code) || !strings.Contains(r.Reason, c.reason) {
				t.Errorf("it says %v %q, want %q and %q", r.Codes, r.Reason, c.why.Code, c.reason)
			}
		})
	}
}

// Behind a gate the one p95 that a snapshot has for all routes decides nothing: a slow report
// among fast routes changes neither the limit nor what is believed about the capacity. A
// snapshot without answers does not raise the limit, however fast it may look.
func TestTheP95OfAllRoutesDecidesNothingBehindAGate(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Snapshot)
	}{
		{"idle", behind(0, nil)},
		{"idle, and the limit refuses", behind(0, refusing(100))},
		{"full at times", behind(.3, refusing(100))},
		{"full", behind(1, refusing(200))},
		{"full, and a few fail", behind(1, func(s *Snapshot) { refusing(200)(s); s.Errors = .03 })},
		{"full, and many fail", behind(1, func(s *Snapshot) { refusing(200)(s); s.Errors = .3 })},
	} {
		var want Recommendation
		var belief Belief
		for i, p95 := range []time.Duration{5 * time.Millisecond, 140 * time.Millisecond, 400 * time.Millisecond,
			30 * time.Second} {
			p, k := watched(with(0))
			var got Recommendation
			for j := range 5 {
				got = p.Advise(seen(k+j, func(s *Snapshot) { c.change(s); s.P95 = p95 }), DemandForecast{})
			}
			if i == 0 {
				want, belief = got, p.State().Belief
			}
			if got.Limit != want.Limit || !slices.Equal(got.Codes, want.Codes) || p.State().Belief != belief {
				t.Errorf("%s: with a p95 of %v it recommends %v (%v) and believes %v, with 5ms %v (%v) and %v",
					c.name, p95, got.Limit, got.Codes, p.State().Belief, want.Limit, want.Codes, belief)
			}
		}
	}
	for _, gated := range []bool{false, true} {
		p, i := watched(with(400))
		for k := range 5 {
			r := p.Advise(seen(i+k, func(s *Snapshot) {
				refusing(100)(s)
				if s.P95, s.Ended = 0, 0; gated {
					s.GateLimit = 30
				}
			}), expect(300))
			if r.Rate() != 100 {
				t.Fatalf("gate %v: after %d snapshots without answers the limit is %.0f/s: %v", gated, k+1, r.Rate(), r.Codes)
			}
		}
	}
}

// Behind an idle gate a limit rises as far as the target answers well, and no further.
func TestRisesNoFurtherThanProven(t *testing.T) {
	p, i := watched(with(0))
	limit := Limit{Algorithm: Token, Capacity: 20, FillRate: 100}
	for k := range 30 { // the demand has no end, but of what is let through half a hundred fail
		r := p.Advise(seen(i+k, behind(0, func(s *Snapshot) {
			refusing(limit.FillRate)(s)
			s.Limit = limit
			s.Errors = max(0, 1-150/limit.FillRate)
		})), DemandForecast{})
		limit = r.Limit
	}
	if rate := limit.Rate(); rate > room*150 || rate < 150 {
		t.Errorf("of a target that answers 150/s well, whatever it is asked for, the limit is %.0f/s", rate)
	}
}

// Behind a gate a short slowdown does not lower the limit, which would recover much later than
// the target. If the gate stays full, or is full repeatedly, the limit falls.
func TestFallsOnlyWhenTheGateIsOftenFull(t *testing.T) {
	for _, c := range []struct {
		name        string
		full, every int // seconds of so many in which the gate is full
		from, to    time.Duration
	}{
		{"all the time", 5, 5, 25 * time.Second, time.Minute},
		{"20 s of 4 minutes", 20, 240, 0, 0},
		{"10 s of 30", 10, 30, 45 * time.Second, 3 * time.Minute},
		{"5 s of a minute", 5, 60, 0, 0},
	} {
		p, i := watched(with(160))
		begin := seen(i, nil).At
		fell := time.Duration(0)
		for since := 5; since <= 900 && fell == 0; since += 5 {
			share := 0.0
			if (since-1)%c.every < c.full {
				share = 1
			}
			r := p.Advise(seen(i, func(s *Snapshot) {
				behind(share, nil)(s)
				s.At, s.Interval = begin.Add(time.Duration(since)*time.Second), 5*time.Second
				s.Limit.FillRate, s.Observed, s.Forwarded, s.Ended = 200, 150, 75, 75*5
			}), DemandForecast{})
			if r.Rate() < 200 {
				fell = time.Duration(since) * time.Second
			}
		}
		if fell < c.from || fell > c.to {
			t.Errorf("%s: the limit fell after %v, want %v to %v (0: never)", c.name, fell, c.from, c.to)
		}
	}
}

// The bound of gates follows from the most that the target has worked on, and not from a queue.
// It is unknown without a gate, and at first. It does not end growth that the target can take,
// nor slowness: then it rises within minutes.
func TestBoundOfGates(t *testing.T) {
	const takes = .05 // s
	for _, c := range []struct {
		name       string
		change     func(i int, s *Snapshot)
		least, top float64
	}{
		{"no gate", func(_ int, s *Snapshot) { s.GateLimit = 0 }, 0, 0},
		{"not reported", func(_ int, s *Snapshot) { s.InFlight = 0 }, 0, 0},
		{"steady", func(int, *Snapshot) {}, 3 * 5, 50},
		{"half a minute of a long queue", func(i int, s *Snapshot) {
			if i == 30 {
				s.Interval, s.Ended, s.InFlight = 30*time.Second, 3000, 2000
			}
		}, 3 * 5, 70},
		{"a long queue before anything is known", func(i int, s *Snapshot) {
			if i == 0 {
				s.Interval, s.Ended, s.InFlight = 2*time.Second, 200, 500
			}
		}, 3 * 5, 50},
		{"a long queue at the first traffic", func(i int, s *Snapshot) {
			switch {
			case i < 6:
				s.Ended, s.InFlight = 3, .1
			case i == 6:
				s.Interval, s.Ended, s.InFlight = 2*time.Second, 200, 500
			}
		}, 3 * 5, 50},
		{"a queue that stands while the gate sheds", func(i int, s *Snapshot) {
			if i >= 30 {
				s.At, s.Interval, s.InFlight, s.GateShare = seen(30, nil).At.Add(2*time.Second*time.Duration(i-30)),
					2*time.Second, 40, 1
				s.Ended = 200
			}
		}, 3 * 5, 70},
		{"failures are quick", func(i int, s *Snapshot) {
			if i >= 30 {
				s.Errors, s.InFlight = .5, .1
			}
		}, 3 * 5, 50},
		{"four times the traffic, and the target answers", func(i int, s *Snapshot) {
			if i >= 38 {
				s.Ended, s.InFlight = 4*s.Ended, 4*s.InFlight
			}
		}, 3 * 20, 130},
		{"the target takes five times as long", func(i int, s *Snapshot) {
			if i >= 35 {
				s.InFlight = 5 * s.InFlight
			}
		}, 3 * 25, 150},
	} {
		p := New(with(160))
		var r Recommendation
		for i := range 40 {
			r = p.Advise(seen(i, func(s *Snapshot) {
				s.GateLimit, s.Observed, s.Forwarded, s.Ended, s.InFlight = 30, 100, 100, 100*60, 100*takes
				c.change(i, s)
			}), DemandForecast{})
			if i < boundAfter-1 && r.GateMax != 0 {
				t.Fatalf("%s: after %d snapshots it bounds gates by %v", c.name, i+1, r.GateMax)
			}
		}
		if r.GateMax < c.least || r.GateMax > c.top {
			t.Errorf("%s: gates are bounded by %v, want %v to %v; %+v", c.name, r.GateMax, c.least, c.top, p.State())
		}
	}
}

// A shortage is the time until the demand's 95 % quantile exceeds the known capacity.
func TestShortage(t *testing.T) {
	p := New(with(160))
	for i := range 20 {
		p.Advise(seen(i, behind(1, func(s *Snapshot) { s.Observed, s.Forwarded, s.Limit.FillRate = 150, 150, 200 })),
			DemandForecast{})
	}
	for _, c := range []struct {
		outlook DemandForecast
		want    time.Duration
	}{
		{expect(slices.Repeat([]float64{100}, 25)...), 0},
		{expect(append(slices.Repeat([]float64{100}, 11), 200)...), 12 * time.Minute},
		{expect(append(slices.Repeat([]float64{100}, 22), 200)...), 0},
		{DemandForecast{}, 0},
	} {
		if got := p.shortage(c.outlook); got != c.want {
			t.Errorf("a shortage in %v, want %v", got, c.want)
		}
	}
	if q := p.State().Capacity; q.Q50 < 140 || q.Q50 > 160 || q.Confidence < 0.8 {
		t.Errorf("of 150 good answers a second while the gate binds it believes %+v", q)
	}
}

func TestSlownessThatLimitsDoNotCure(t *testing.T) {
	p, i := watched(with(0))
	limit := Limit{Algorithm: Token, Capacity: 20, FillRate: 60}
	for k := range 16 {
		r := p.Advise(seen(i+k, func(s *Snapshot) {
			s.Limit, s.P95 = limit, 1500*time.Millisecond
			s.Forwarded = min(60, limit.Rate())
			s.RejectedShare = 1 - s.Forwarded/60
		}), DemandForecast{})
		limit = r.Limit
	}
	if limit.Rate() < 50 {
		t.Errorf("a target that is slow whatever its load: limit %v/s, %+v", limit.Rate(), p.State().Guard)
	}
}

func TestABoundLimitNeverTalksItselfDown(t *testing.T) {
	for _, hint := range []float64{0, 30, 60, 160, 1000} {
		p := New(with(hint))
		limit := Limit{Algorithm: Token, Capacity: 20, FillRate: 60}
		for i := range 60 {
			r := p.Advise(seen(i, func(s *Snapshot) {
				s.Limit, s.Observed, s.Forwarded, s.RejectedShare = limit, 60, 60, 0
				if limit.Rate() < 60 {
					s.Forwarded, s.RejectedShare = limit.Rate(), 1-limit.Rate()/60
				}
			}), DemandForecast{})
			if limit = r.Limit; r.Rate() < 60 {
				t.Fatalf("hint %v: the limit fell to %v/s while the target was at ease: %s", hint, r.Rate(), r.Reason)
			}
		}
	}
}

func TestValidFor(t *testing.T) {
	for _, c := range []struct {
		name    string
		outlook DemandForecast
		want    time.Duration
	}{
		{"all the same", expect(slices.Repeat([]float64{60}, 15)...), 10 * time.Minute},
		{"a rise in six minutes", expect(60, 60, 60, 60, 60, 105, 105), 5 * time.Minute},
		{"no forecast", DemandForecast{}, 2 * time.Minute},
	} {
		p, i := watched(with(160))
		if r := p.Advise(seen(i, nil), c.outlook); r.ValidFor != c.want {
			t.Errorf("%s: valid for %v, want %v", c.name, r.ValidFor, c.want)
		}
	}
}

func TestPredicted(t *testing.T) {
	p, i := watched(with(160))
	r := p.Advise(seen(i, nil), expect(50, 70, 60))
	if r.PredictedRPS != 70 || math.Abs(r.Predicted95-73.5) > 1e-9 {
		t.Errorf("predicted %v and %v, want 70 and 73.5", r.PredictedRPS, r.Predicted95)
	}
}

// For any answers the belief has a finite mean and variance.
func TestNothingLetThroughAndErrors(t *testing.T) {
	p := New(Settings{SLO: 300 * time.Millisecond})
	for i := range 6 {
		r := p.Advise(seen(i,
			func(s *Snapshot) { s.Observed, s.Forwarded, s.Ended, s.Errors = 0, 0, 100, min(1, .5+float64(i)/2) }),
			DemandForecast{})
		if b := p.State().Belief; !(b.Mean > -100) || !(r.Confidence >= 0) {
			t.Fatalf("it believes %+v, confidence %v: %v", b, r.Confidence, r.Codes)
		}
	}
}

// A limit that was lowered manually while the target was overloaded is not restored when the
// cause turns out to be a fault.
func TestLoweredByHandDuringAFault(t *testing.T) {
	p, i := watched(with(0))
	limit := Limit{Algorithm: Token, Capacity: 20, FillRate: 60}
	for k := range 16 {
		if k == 1 {
			limit.FillRate = 10
		}
		r := p.Advise(seen(i+k, func(s *Snapshot) {
			s.Limit, s.P95 = limit, 1500*time.Millisecond
			s.Forwarded = min(60, limit.FillRate)
			s.RejectedShare = 1 - s.Forwarded/60
		}), DemandForecast{})
		if limit = r.Limit; k > 0 && limit.FillRate > 10 {
			t.Fatalf("snapshot %d: from 10/s, set by hand, to %v/s: %v", k, limit.FillRate, r.Codes)
		}
	}
}

// A target that fails without becoming slower has no queue to work off: the snapshot after the
// cut shows whether fewer requests fail less often, and the limit is restored at once.
func TestFaultCostsOneCut(t *testing.T) {
	p, i := watched(with(160))
	limit := seen(0, nil).Limit
	for k := range 2 {
		limit = p.Advise(seen(i+k, func(s *Snapshot) {
			s.Limit, s.Errors = limit, .2
			s.Forwarded = min(s.Observed, limit.FillRate)
		}), DemandForecast{}).Limit
	}
	if !p.State().Guard.Fault.Active || limit.FillRate != 100 {
		t.Errorf("two snapshots after a fault began the limit is %.0f/s, %+v", limit.FillRate, p.State().Guard)
	}
}

// While hardly any request is answered the limit falls with every snapshot.
func TestHopelessOverload(t *testing.T) {
	p, i := watched(with(400))
	limit := seen(0, refusing(400)).Limit
	for k := range 4 {
		limit = p.Advise(seen(i+k, func(s *Snapshot) {
			refusing(limit.FillRate)(s)
			s.P95, s.Errors = 2*time.Second, .9
		}), DemandForecast{}).Limit
	}
	if limit.FillRate > 0.3*400 {
		t.Errorf("after four snapshots without answers the limit is %.0f/s", limit.FillRate)
	}
}

// A limit does not fall below the rate that is answered well now, whatever the belief was.
func TestNotBelowWhatIsAnswered(t *testing.T) {
	p, i := watched(with(160))
	for k := range 10 {
		p.Advise(seen(i+k, behind(1, refusing(150))), DemandForecast{})
	}
	r := p.Advise(seen(i+10, behind(.4, refusing(400))), DemandForecast{})
	if r.Rate() < 400 {
		t.Errorf("while 400/s are answered well the limit falls to %.0f/s: %s", r.Rate(), r.Reason)
	}
}
