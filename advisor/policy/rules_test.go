package policy

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"
)

// seen is a snapshot of a target that can do 160/s, a minute after the last, with
// a limit of 100/s unless it says otherwise.
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

// watched is a policy that has seen a target at ease for 20 minutes.
func watched(set Settings) (*Policy, int) {
	p := New(set)
	for i := range 20 {
		p.Advise(seen(i, nil), Outlook{})
	}
	return p, 20
}

// expect is a forecast of one demand per minute.
func expect(demand ...float64) Outlook {
	o := Outlook{Step: time.Minute}
	for _, d := range demand {
		o.Points = append(o.Points, Point{0.9 * d, d, 1.02 * d, 1.05 * d, 1.08 * d})
	}
	return o
}

func TestRules(t *testing.T) {
	steady := slices.Repeat([]float64{60}, 15)
	for _, c := range []struct {
		name      string
		change    func(*Snapshot)
		outlook   Outlook
		low, high float64 // rate
		code      string
		reason    string // part of it
	}{
		{"all is well", nil, expect(steady...), 100, 100, Hold, "forecast=60 req/s, the limit fits"},
		{"no forecast", nil, Outlook{}, 100, 100, NoForecast, "no forecast"},
		{"a forecast of nonsense is none", nil, expect(math.NaN()), 100, 100, NoForecast, "no forecast"},
		{"a rise within the next minute", nil, expect(105, 105, 105), 121, 122, ForecastRise, "forecast=105 req/s, raised ahead of it"},
		{"a rise that one step cannot reach", nil, expect(60, 150), 118, 125, AtCapacity, "raised as far as the target can take"},
		{"a rise that is far enough away", nil, expect(60, 60, 60, 60, 60, 60, 110), 100, 100, Hold, "the limit fits"},
		{"a rise beyond what the target takes", func(s *Snapshot) { s.Limit.FillRate = 150 }, expect(300, 300), 112, 150, ForecastOverload, "the target can take"},
		{"an overload to come", func(s *Snapshot) { s.Limit.FillRate = 160 }, expect(60, 60, 900, 900), 112, 155, ForecastOverload, "lowered ahead of it"},
		{"it refuses and the target is at ease", func(s *Snapshot) { s.Observed, s.Forwarded, s.RejectedShare = 130, 100, 0.23 }, Outlook{}, 104, 125, Refusing, "23.0 % refused"},
		{"slow", func(s *Snapshot) { s.P95 = 500 * time.Millisecond }, Outlook{}, 90, 96, Slow, "the target gets slow (p95=0.5 s of 0.42 s"},
		{"overloaded", func(s *Snapshot) { s.Forwarded, s.Observed, s.P95, s.Errors = 100, 100, 2*time.Second, 0.4 }, Outlook{}, 50, 75, Overload, "the target is overloaded"},
		{"errors at ease, far below the capacity", func(s *Snapshot) { s.Errors = 0.2 }, Outlook{}, 100, 100, BackendFault, "another reason than load"},
		{"a few errors among a few requests", func(s *Snapshot) { s.Observed, s.Forwarded, s.Errors = 0.2, 0.2, 0.1 }, Outlook{}, 100, 100, LittleTraffic, "too little traffic"},
		{"the limiter is off", func(s *Snapshot) { s.Limit = Limit{Algorithm: Off} }, Outlook{}, math.Inf(1), math.Inf(1), LimiterOff, "stays off"},
		{"an unknown algorithm", func(s *Snapshot) { s.Limit.Algorithm = "best" }, Outlook{}, 100, 100, InvalidInput, "impossible numbers"},
		{"not a number", func(s *Snapshot) { s.Errors = math.NaN() }, Outlook{}, 100, 100, InvalidInput, "impossible numbers"},
		{"more refused than all", func(s *Snapshot) { s.RejectedShare = 1.1 }, Outlook{}, 100, 100, InvalidInput, "impossible numbers"},
		{"an old snapshot", func(s *Snapshot) { s.At = start }, Outlook{}, 100, 100, Stale, "not newer"},
		{"somebody raised it by hand", func(s *Snapshot) { s.Limit.FillRate = 120 }, expect(steady...), 120, 120, Hold, "the limit fits"},
		{"somebody raised it above the capacity", func(s *Snapshot) { s.Limit.FillRate = 400 }, expect(steady...), 280, 280, StepLimited, "the target can take"},
		{"somebody chose gcra", func(s *Snapshot) { s.Limit = Limit{Algorithm: GCRA, Limit: 100, Window: 1, Burst: 7} }, expect(105, 105), 121, 122, ForecastRise, "raised ahead"},
		{"somebody chose leaky", func(s *Snapshot) { s.Limit = Limit{Algorithm: Leaky, Capacity: 30, FillRate: 100} }, expect(105, 105), 121, 122, ForecastRise, "raised ahead"},
		{"somebody chose sliding_log", func(s *Snapshot) { s.Limit = Limit{Algorithm: SlidingLog, Limit: 700, Window: 7} }, expect(105, 105), 121, 122, ForecastRise, "raised ahead"},
		{"somebody went beyond the bounds", func(s *Snapshot) { s.Limit.FillRate = 20000 }, expect(steady...), 5000, 5000, BoundMax, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, i := watched(with(160))
			r := p.Advise(seen(i, c.change), c.outlook)
			if rate := r.Rate(); rate < c.low || rate > c.high {
				t.Errorf("limit %v/s, want %v to %v: %v %s", rate, c.low, c.high, r.Codes, r.Reason)
			}
			if !slices.Contains(r.Codes, c.code) || !strings.Contains(r.Reason, c.reason) {
				t.Errorf("it says %v %q, want %q and %q", r.Codes, r.Reason, c.code, c.reason)
			}
		})
	}
}

func TestARaiseThatFailedIsTakenBack(t *testing.T) {
	p, i := watched(with(0))
	raised := func(s *Snapshot) {
		s.Limit.FillRate, s.Observed, s.Forwarded, s.RejectedShare = 125, 200, 125, 0.375
	}
	r := p.Advise(seen(i, func(s *Snapshot) { raised(s); s.P95 = time.Second }), Outlook{})
	if r.Codes[0] != Rollback || r.Rate() > 100 {
		t.Fatalf("after a raise from 100 to 125/s: %v/s %v", r.Rate(), r.Codes)
	}
	for k := range 4 {
		r = p.Advise(seen(i+1+k, func(s *Snapshot) { raised(s); s.Limit = r.Limit; s.Forwarded = r.Rate() }), Outlook{})
		if r.Rate() > 0.95*125 {
			t.Fatalf("%d minutes after 125/s failed the limit is %v/s", k+1, r.Rate())
		}
	}
}

func TestSlownessThatLimitsDoNotCure(t *testing.T) {
	p, i := watched(with(0))
	limit := Limit{Algorithm: Token, Capacity: 20, FillRate: 60}
	lowest := 60.0
	for k := range 12 {
		r := p.Advise(seen(i+k, func(s *Snapshot) {
			s.Limit, s.P95 = limit, 1500*time.Millisecond
			s.Forwarded = min(60, limit.Rate())
			s.RejectedShare = 1 - s.Forwarded/60
		}), Outlook{})
		limit = r.Limit
		lowest = min(lowest, r.Rate())
	}
	if !p.State().Guard.Fault.Active || limit.Rate() < 50 {
		t.Errorf("a target that is slow whatever its load: limit %v/s, lowest %v/s, fault %+v", limit.Rate(), lowest, p.State().Guard.Fault)
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
			}), Outlook{})
			if limit = r.Limit; r.Rate() < 60 {
				t.Fatalf("hint %v: the limit fell to %v/s while the target was at ease: %s", hint, r.Rate(), r.Reason)
			}
		}
	}
}

func TestValidFor(t *testing.T) {
	for _, c := range []struct {
		name    string
		outlook Outlook
		want    time.Duration
	}{
		{"all the same", expect(slices.Repeat([]float64{60}, 15)...), 10 * time.Minute},
		{"a rise in six minutes", expect(60, 60, 60, 60, 60, 105, 105), 5 * time.Minute},
		{"no forecast", Outlook{}, 2 * time.Minute},
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
