package gate_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"weir/proxy/targets/gate"
)

const (
	ms  = time.Millisecond
	sec = time.Second
)

// Whatever a gate is told, the limit stays within its bounds.
func TestBounds(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 1))
		cfg := gate.Config{Min: 1 + rng.IntN(8), Max: rng.IntN(100), First: rng.IntN(100)}
		g, now := gate.New(cfg), time.Unix(1, 0)
		most := max(cfg.Max, cfg.Min)
		if cfg.Max == 0 {
			most = 1 << 31
		}
		for range 20_000 {
			now = now.Add(time.Duration(rng.ExpFloat64() * float64(ms) * rng.Float64()))
			if rng.IntN(1000) == 0 {
				now = now.Add(time.Duration(rng.IntN(7200)-3600) * sec)
			}
			took := time.Duration(rng.ExpFloat64() * float64(10*ms))
			if rng.IntN(100) == 0 {
				took = time.Duration(rng.Int64N(int64(1e18))) - 5e17
			}
			g.Answered(now, &gate.Response{Sent: now.Add(-took), Class: rng.IntN(gate.LatencyClasses),
				Refused: rng.IntN(10) == 0, Full: rng.IntN(2) == 0, Crowded: rng.IntN(2) == 0,
				Alone: rng.IntN(4) == 0, InFlight: 1 + rng.IntN(50)})
			if n := g.Limit(); n < cfg.Min || n > most {
				t.Fatalf("seed %d: the limit is %d, want %d to %d", seed, n, cfg.Min, most)
			}
		}
	}
}

// A clock that is set back does not stop the gate from judging.
func TestClockSetBack(t *testing.T) {
	g, now := gate.New(gate.Config{}), time.Unix(1e9, 0)
	answers := func(n int) (judged int) {
		for range n {
			now = now.Add(ms)
			if g.Answered(now, &gate.Response{Sent: now.Add(-10 * ms), InFlight: 2}) {
				judged++
			}
		}
		return judged
	}
	if answers(2000) == 0 {
		t.Fatal("2000 answers are not judged")
	}
	if now = now.Add(-3600 * sec); answers(2000) == 0 {
		t.Error("after the clock was set back by an hour 2000 answers are not judged")
	}
}

// Answers that are told long after they came, as their bodies took long or another loop was
// telling, are not taken for a clock that was set back: what has come since is judged as before.
func TestLateAnswers(t *testing.T) {
	g, now := gate.New(gate.Config{}), time.Unix(1e9, 0)
	answer := func(a gate.Response) bool {
		now = now.Add(ms)
		a.Sent, a.InFlight = now.Add(-a.Ago-10*ms), 2
		return g.Answered(now, &a)
	}
	last := now
	for range 2000 {
		if answer(gate.Response{}) {
			last = now
		}
	}
	answer(gate.Response{Ago: time.Minute})
	for now.Sub(last) < 90*ms {
		if answer(gate.Response{}) {
			t.Fatalf("answers of %v are judged", now.Sub(last))
		}
	}
}

func TestAllocs(t *testing.T) {
	g, now := gate.New(gate.Config{}), time.Unix(1, 0)
	a := gate.Response{InFlight: 1}
	if n := testing.AllocsPerRun(10_000, func() {
		now = now.Add(ms)
		a.Sent = now.Add(-10 * ms)
		g.Answered(now, &a)
	}); n != 0 {
		t.Errorf("%.2f allocations for an answer", n)
	}
}

func BenchmarkAnswered(b *testing.B) {
	g, now := gate.New(gate.Config{}), time.Now() // with the monotonic clock, as loops tell it
	rng := rand.New(rand.NewPCG(1, 1))
	takes := make([]time.Duration, 1024)
	for i := range takes {
		takes[i] = time.Duration(rng.ExpFloat64() * float64(10*ms))
	}
	a := gate.Response{InFlight: 10}
	b.ReportAllocs()
	for i := range b.N { // more than a third of the time goes into the two additions
		now = now.Add(20 * time.Microsecond)
		a.Sent = now.Add(-takes[i%len(takes)])
		g.Answered(now, &a)
	}
}
