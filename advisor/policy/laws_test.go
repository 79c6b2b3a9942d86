package policy

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"weir/advisor/forecast"
)

// odd are invalid and unusual numbers.
var odd = [...]float64{0, 1, 5, 100, 1e-9, 1e6, 1e12, 1e300, -1, math.NaN(), math.Inf(1), math.Inf(-1), 0.5, 0.05}

// A dice makes inputs from bytes, and at random when they are used up.
type dice struct {
	data []byte
	rng  *rand.Rand
}

func (d *dice) uint() uint64 {
	if len(d.data) >= 8 {
		v := binary.LittleEndian.Uint64(d.data)
		d.data = d.data[8:]
		return v
	}
	return d.rng.Uint64()
}

func (d *dice) below(n int) int { return int(d.uint() % uint64(n)) }

// share returns a number from 0 to 1.
func (d *dice) share() float64 { return float64(d.uint()>>11) / (1 << 53) }

// number returns a plausible number up to most, or an odd one.
func (d *dice) number(most float64) float64 {
	if d.below(12) == 0 {
		return odd[d.below(len(odd))]
	}
	return most * math.Pow(d.share(), 3)
}

func (d *dice) limit(inForce Limit) Limit {
	switch d.below(6) {
	case 0:
		return inForce // the recommendation was refused
	case 1: // somebody changed it
		all := [...]string{Fixed, Sliding, Token, SlidingLog, GCRA, Leaky, Off, "", "best"}
		return Limit{all[d.below(len(all))], d.number(1000), d.number(60), d.number(500), d.number(1000), d.number(5)}
	}
	return inForce
}

func (d *dice) snapshot(at time.Time, limit Limit) Snapshot {
	return Snapshot{
		At: at, Interval: time.Duration(1+d.below(90)) * time.Second,
		Observed: d.number(2000), Forwarded: d.number(1000), RejectedShare: d.number(1),
		P95: time.Duration(d.number(3e9)), Errors: d.number(1), Limit: limit,
		Mode: Mode(d.below(8) / 6), Ended: d.number(60_000), GateLimit: float64(d.below(2)) * d.number(100),
		GateShare: d.number(1), InFlight: d.number(100),
	}
}

func (d *dice) outlook() DemandForecast {
	o := DemandForecast{Step: time.Duration(d.below(120)) * time.Second}
	for range d.below(20) {
		q := 2000 * d.share()
		o.Points = append(o.Points, forecast.Point{Q05: q / 2, Q50: q, Q80: 1.1 * q, Q95: 1.3 * q, Q99: 2 * q})
	}
	return o
}

// clean returns a copy without NaN, which does not equal itself.
func clean(l Limit) Limit {
	for _, v := range []*float64{&l.Limit, &l.Window, &l.Capacity, &l.FillRate, &l.Burst} {
		if math.IsNaN(*v) {
			*v = -1
		}
	}
	return l
}

// law returns the broken law as a sentence; empty if there is none.
func law(set Settings, s Snapshot, r Recommendation) string {
	rate, old := r.Rate(), s.Limit.Rate()
	const eps = 1e-6
	if !s.valid() {
		if clean(r.Limit) != clean(s.Limit) || r.Codes[0] != InvalidInput.Code {
			return "an impossible snapshot changes something"
		}
		return ""
	}
	switch {
	case !r.Limit.valid():
		return "it is no valid limit"
	case len(r.Codes) == 0 || r.Reason == "":
		return "it has no reason"
	case !(r.Confidence >= 0 && r.Confidence <= 1):
		return "the confidence is not from 0 to 1"
	case r.ValidFor <= 0 || r.ValidFor > validForMax:
		return "it is valid for no sensible time"
	case r.GateMax != 0 && !(r.GateMax >= boundMore && r.GateMax == math.Round(r.GateMax)):
		return "it bounds gates by no whole number, or too low"
	case !within(r.PredictedRPS, numberMax) || !within(r.Predicted95, numberMax):
		return "it predicts no number"
	}
	if s.Limit.Algorithm == Off || slices.Contains(r.Codes, Stale.Code) {
		if r.Limit != s.Limit {
			return "what is held changes"
		}
		return ""
	}
	switch {
	case rate < set.LimitMin*(1-eps) || rate > set.LimitMax*(1+eps):
		return "it is out of the bounds"
	case r.Algorithm != s.Limit.Algorithm:
		return "the algorithm is another one"
	case rate > max(old*restore, set.LimitMin)*(1+eps), rate > max(old*(1+stepUp), set.LimitMin)*(1+eps) &&
		!slices.Contains(r.Codes, BackendFault.Code):
		return "the step up is too long"
	case rate < min(old*(1-stepBad), set.LimitMax)*(1-eps):
		return "the step down is too long"
	case rate != old && (r.Limit.Limit != math.Round(r.Limit.Limit) && r.Algorithm != Token && r.Algorithm != Leaky):
		return "the permits are not whole"
	case s.Mode == FailOpen && old >= set.LimitMin && old <= set.LimitMax && r.Limit != s.Limit:
		return "it changes although the limit did not decide"
	}
	return ""
}

// raised returns what is wrong with a raise by p in state s, or nothing. since is the highest
// limit that was in force before.
func raised(p *Policy, s Snapshot, r Recommendation, since float64) string {
	rate, old := r.Rate(), s.Limit.Rate()
	if !s.valid() || slices.Contains(r.Codes, Stale.Code) || !(rate > max(old, p.set.LimitMin)*(1+1e-6)) {
		return ""
	}
	failing := s.Errors > badErrors || slices.Contains(r.Codes, BackendFault.Code)
	switch {
	case failing && rate > since*(1+1e-6):
		return "a fault raises it"
	case !failing && rate > max(p.set.CapacityHint, room*p.st.Proven, p.set.LimitMin)*(1+1e-6):
		return "it rises beyond hint and proof"
	case s.P95 == 0 && s.Errors == 0 && s.Ended == 0:
		return "it rises without an answer"
	}
	return ""
}

// play feeds n snapshots to two equal policies, one of which is encoded and restored in
// between, and checks every law.
func play(t *testing.T, d *dice, n int) {
	set := Settings{LimitMin: 1 + 50*d.share(), CapacityHint: 2000 * max(0, d.share()-0.2),
		SLO: time.Duration(d.below(2)) * 300 * time.Millisecond}
	set.LimitMax = set.LimitMin * (1 + 500*d.share())
	p, twin := New(set), New(set)
	at := start
	inForce := Limit{Algorithm: Fixed, Limit: 100, Window: 1}
	since := 0.0 // the highest limit that was in force
	for i := range n {
		at = at.Add(time.Duration(d.below(200)-5) * time.Second)
		s := d.snapshot(at, d.limit(inForce))
		o := d.outlook()
		r := p.Advise(s, o)
		if broken := law(set, s, r); broken != "" {
			t.Fatalf("snapshot %d: %s\nsettings %+v\nsnapshot %+v\nanswer %+v", i, broken, set, s, r)
		}
		if again := twin.Advise(s, o); clean(again.Limit) != clean(r.Limit) || !slices.Equal(again.Codes, r.Codes) ||
			again.Reason != r.Reason {
			t.Fatalf("snapshot %d: %+v, and after writing the state down %+v", i, r, again)
		}
		if s.valid() {
			since = max(since, s.Limit.Rate())
		}
		if broken := raised(p, s, r, since); broken != "" {
			t.Fatalf("snapshot %d: %s\nsettings %+v\nsnapshot %+v\nanswer %+v", i, broken, set, s, r)
		}
		if r.Limit.valid() && r.Algorithm != Off {
			inForce = r.Limit
		}
		if i%10 == 0 {
			twin = reread(t, set, twin)
		}
	}
}

func reread(t *testing.T, set Settings, p *Policy) *Policy {
	t.Helper()
	text, err := json.Marshal(p.State())
	if err != nil {
		t.Fatalf("write the state: %v", err)
	}
	var s State
	if err := json.Unmarshal(text, &s); err != nil {
		t.Fatalf("read the state: %v", err)
	}
	next := New(set)
	if err := next.Restore(s); err != nil {
		t.Fatal(err)
	}
	if again := next.State(); !reflect.DeepEqual(again, p.State()) {
		t.Fatal("it is another one when read back")
	}
	return next
}

func TestLaws(t *testing.T) {
	for seed := range uint64(12) {
		play(t, &dice{rng: rand.New(rand.NewPCG(seed, 1))}, 120)
	}
}

func FuzzLaws(f *testing.F) {
	f.Add([]byte("a limit is a promise"), uint64(1))
	f.Fuzz(func(t *testing.T, data []byte, seed uint64) {
		play(t, &dice{data, rand.New(rand.NewPCG(seed, 2))}, 40)
	})
}
