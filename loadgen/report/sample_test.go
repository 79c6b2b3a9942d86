package report

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"weir/internal/test/testkit"
	"weir/loadgen/record"
)

// burst is the result of a burst against a limit of 300 per second, with a
// target that fails for a while and a generator that stalls once. It is made by
// the same hands as a real one, of made-up outcomes.
func burst(t testing.TB, seconds int) *record.Result {
	t.Helper()
	r := rand.New(rand.NewPCG(11, 12))
	totals, tally := record.NewTotals(), record.NewTally()
	start := time.Unix(1_768_840_200, 0).UTC()
	length := time.Duration(seconds) * time.Second
	end := start.Add(length)
	var due uint64
	var peaks []record.Peak
	for s := range seconds {
		rate := 100
		if s%30 >= 22 {
			rate = 500
		}
		if s%30 == 22 {
			peaks = append(peaks, record.Peak{Start: float64(s), End: float64(min(s+8, seconds)), Rps: 500})
		}
		for i := range rate {
			at := start.Add(time.Duration(s)*time.Second + time.Duration(i)*time.Second/time.Duration(rate))
			play(r, tally, at, end, scene{failing: s >= 10 && s < 13, stalled: s == 18 && i < 40, limited: i >= 300,
				shed: s == 14 && i%4 == 0, crowded: rate > 400})
		}
		due += uint64(rate)
		totals.Add(tally)
		totals.Row(time.Duration(s)*time.Second, due)
	}
	p95 := testkit.Must(record.ParseThreshold("latency.p95", "<0.05"))(t)
	share := testkit.Must(record.ParseThreshold("rejectedShare", "<0.1"))(t)
	return totals.Result(record.Result{
		TestID: "20260119T163000-a1b2c3", Profile: "burst (baseRps=100, spikeRps=500, spikeDuration=8, spikePeriod=30)",
		URL: "http://proxy:8082/api/test", StartedAt: start, Duration: length.Seconds(), Elapsed: length.Seconds(),
		End: record.EndCompleted,
		Due: due, TargetRps: float64(due) / length.Seconds(), Loops: 1,
		Connections:  record.Connections{Max: 10_000, Peak: 42},
		ScheduleHash: "9f86d081884c7d65", Peaks: peaks,
		Config: map[string]any{"limiterUrl": "http://proxy:8082/api/test", "duration": seconds, "note": "</script><b>&"},
	}, due, []record.Threshold{p95, share})
}

// A scene is what goes wrong with a request.
type scene struct{ failing, stalled, limited, shed, crowded bool }

// play records one made-up request.
func play(r *rand.Rand, tally *record.Tally, due, end time.Time, s scene) {
	pacer := time.Duration(20_000 * (1 + r.ExpFloat64()))
	if s.stalled {
		pacer += 80 * time.Millisecond
	}
	wait := time.Duration(0)
	if s.crowded && r.IntN(8) == 0 {
		wait = time.Duration(2e6 * r.ExpFloat64())
	}
	tally.Start(pacer+wait, pacer, due.Sub(end), s.crowded && r.IntN(60) == 0)
	o := record.Outcome{Status: 200}
	service := 4e6 * math.Exp(0.4*r.NormFloat64())
	switch {
	case s.limited:
		o, service = record.Outcome{Status: 429}, 3e5*math.Exp(0.3*r.NormFloat64())
	case s.failing && r.IntN(3) == 0:
		o, service = record.Outcome{Reason: record.Timeout}, 5e9
	case s.failing && r.IntN(4) == 0:
		o = record.Outcome{Status: 503}
	case r.IntN(400) == 0:
		service *= 20
	}
	if s.shed {
		o = record.Outcome{Status: 503, Gate: true}
	}
	o.Due, o.Start = due, due.Add(pacer+wait)
	o.Done = o.Start.Add(time.Duration(service))
	tally.Finish(&o, end)
}
