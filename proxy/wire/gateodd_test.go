package wire

import (
	"encoding/json"
	"math/rand/v2"
	"testing"
	"time"

	"weir/internal/http1"
	"weir/proxy/exchange"
	"weir/proxy/gate"
)

// Whatever a target does, and whatever the clock does, the limit keeps its bounds and
// what is told of it are numbers; afterwards the target is not starved.
func TestGateWithstandsOddTargets(t *testing.T) {
	const least, most = 2, 64
	day := 24 * time.Hour
	between := func(rng *rand.Rand, low, high time.Duration) time.Duration {
		return low + time.Duration(rng.Int64N(int64(high-low)))
	}
	for name, step := range map[string]func(rng *rand.Rand, now *time.Time) (took time.Duration, o exchange.Outcome){
		"answers nothing": func(_ *rand.Rand, now *time.Time) (time.Duration, exchange.Outcome) {
			*now = now.Add(10 * time.Millisecond)
			return 10 * time.Second, exchange.Outcome{Status: 504, Fault: exchange.FaultTimeout}
		},
		"refuses everything": func(_ *rand.Rand, now *time.Time) (time.Duration, exchange.Outcome) {
			*now = now.Add(time.Millisecond)
			return 0, exchange.Outcome{Status: 503}
		},
		"a request a minute": func(rng *rand.Rand, now *time.Time) (time.Duration, exchange.Outcome) {
			*now = now.Add(time.Minute)
			return between(rng, time.Millisecond, time.Second), exchange.Outcome{Status: 200}
		},
		"answers in no time": func(_ *rand.Rand, now *time.Time) (time.Duration, exchange.Outcome) {
			*now = now.Add(time.Microsecond)
			return 0, exchange.Outcome{Status: 200}
		},
		"answers after a day": func(_ *rand.Rand, now *time.Time) (time.Duration, exchange.Outcome) {
			*now = now.Add(time.Second)
			return day, exchange.Outcome{Status: 200}
		},
		"answers before it was asked": func(_ *rand.Rand, now *time.Time) (time.Duration, exchange.Outcome) {
			*now = now.Add(time.Millisecond)
			return -time.Second, exchange.Outcome{Status: 200}
		},
		"the clock stands": func(rng *rand.Rand, _ *time.Time) (time.Duration, exchange.Outcome) {
			return between(rng, 0, time.Second), exchange.Outcome{Status: 200}
		},
		"the clock jumps": func(rng *rand.Rand, now *time.Time) (time.Duration, exchange.Outcome) {
			*now = now.Add(5 * time.Millisecond)
			if rng.IntN(500) == 0 {
				*now = now.Add(between(rng, -3650*day, 3650*day))
			}
			return between(rng, time.Millisecond, 20*time.Millisecond), exchange.Outcome{Status: 200}
		},
		"everything at once": func(rng *rand.Rand, now *time.Time) (time.Duration, exchange.Outcome) {
			*now = now.Add(between(rng, -time.Second, 2*time.Second))
			return between(rng, -time.Second, time.Minute), exchange.Outcome{Status: 200 + rng.IntN(400), Fault: exchange.Fault(rng.IntN(exchange.Faults))}
		},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(4) {
				rng := rand.New(rand.NewPCG(seed, 2))
				slo := time.Duration(0)
				if seed%2 == 1 {
					slo = 50 * time.Millisecond
				}
				f, tg := newGated(least, most, slo)
				now := time.Unix(1_700_000_000, 0)
				answer := func(took time.Duration, o exchange.Outcome) {
					o.Method = http1.Method(rng.IntN(10))
					o.Sent = now.Add(-took)
					o.Complete = o.Sent
					if o.Fault == exchange.FaultNone {
						o.Answered = now
					}
					c := &client{answer: gate.Answer{InFlight: 1 + rng.IntN(2*most), Full: rng.IntN(2) == 0}}
					tg.learnt(now, c, &o)
					if n := tg.gate.Limit(); n < least || n > most {
						t.Fatalf("seed %d: the limit is %d", seed, n)
					}
				}
				for range 5_000 {
					took, o := step(rng, &now)
					answer(took, o)
				}
				if _, err := json.Marshal(f.Gates.Report("", 1)); err != nil {
					t.Errorf("seed %d: %v", seed, err)
				}
				if st := f.Gates.Report("", 1).Targets[0]; st.Share < 0 || st.Share > 1 || st.Baseline < 0 || st.Median < 0 {
					t.Errorf("seed %d: %+v", seed, st)
				}
				// A target that is well again: 20 at work, all places taken.
				for range 60_000 {
					now = now.Add(500 * time.Microsecond)
					n := tg.gate.Limit()
					took := 10 * time.Millisecond * time.Duration(max(n, 20)) / 20
					tg.learnt(now, &client{answer: gate.Answer{InFlight: n, Full: true}}, &exchange.Outcome{Method: http1.GET, Status: 200,
						Sent: now.Add(-took), Complete: now.Add(-took), Answered: now})
				}
				if n := tg.gate.Limit(); n < 4 {
					t.Errorf("seed %d: half a minute afterwards the limit is still %d", seed, n)
				}
			}
		})
	}
}
