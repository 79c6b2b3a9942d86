package model

import (
	"math/rand/v2"
	"testing"
	"time"

	"weir/internal/test/testkit"
)

// A run is a long seeded run of a service in virtual time, and what was seen.
type run struct {
	cfg      Config
	rate     float64 // Poisson arrivals per second
	arrivals int
	seed     uint64

	count    [TimedOut + 1]int // by final outcome
	waits    time.Duration     // of those who were served, summed
	insiders float64           // requests inside × seconds
	sojourns time.Duration     // time inside, summed over those who were inside
	span     time.Duration
	last     time.Time // time of the newest event told
}

// play lets everybody arrive and the service finish, with every event told at
// its own time, and checks after each step what must hold at all times.
func (r *run) play(t *testing.T) {
	t.Helper()
	m := newModel(t, r.cfg, r.seed)
	arrivals := rand.New(rand.NewPCG(r.seed, 1))
	born := make([]time.Time, r.arrivals)
	r.last = epoch
	now := epoch
	look := func(at time.Time) {
		r.insiders += float64(m.Busy()+m.Waiting()) * at.Sub(now).Seconds()
		now = at
		for _, d := range m.Expire(at, nil) {
			r.count[d.Outcome]++
			r.sojourns += d.At.Sub(born[d.Who])
			if d.Outcome != TimedOut {
				r.waits += d.Wait
			}
			if d.At.Before(r.last) {
				t.Fatalf("told %v after %v", d.At, r.last)
			}
			r.last = d.At
		}
		if m.Waiting() > 0 && m.Busy() < r.cfg.Workers {
			t.Fatalf("%d wait while only %d of %d workers are busy", m.Waiting(), m.Busy(), r.cfg.Workers)
		}
		if m.Waiting() > r.cfg.Queue {
			t.Fatalf("%d wait in %d places", m.Waiting(), r.cfg.Queue)
		}
	}
	due := epoch
	for who := range r.arrivals {
		due = due.Add(time.Duration(arrivals.ExpFloat64() / r.rate * 1e9))
		for at, ok := m.Next(); ok && !at.After(due); at, ok = m.Next() {
			look(at)
		}
		look(due)
		born[who] = due
		if _, o := m.Arrive(due, who); o.Final() {
			r.count[o]++
		}
		look(due)
	}
	for at, ok := m.Next(); ok; at, ok = m.Next() {
		look(at)
	}
	r.span = now.Sub(epoch)
	total := 0
	for _, n := range r.count {
		total += n
	}
	if total != r.arrivals || m.Busy() != 0 || m.Waiting() != 0 {
		t.Fatalf("%d of %d requests have an end; %d busy and %d waiting are left", total, r.arrivals, m.Busy(), m.Waiting())
	}
}

// Under overload the throughput is workers / mean service time. With constant
// times it is exact up to the last round.
func TestCapacity(t *testing.T) {
	for _, test := range []struct {
		dist  Dist
		share float64
	}{{Constant, 0.001}, {Exponential, 0.02}, {Lognormal, 0.02}} {
		r := run{cfg: service(4, 50, 10*ms, time.Second), rate: 1000, arrivals: 50_000, seed: 7}
		r.cfg.Dist = test.dist
		r.play(t)
		testkit.Tolerance(test.share).Near(t, test.dist.String()+" throughput", float64(r.count[Served])/r.span.Seconds(),
			400)
		if r.count[Refused] == 0 {
			t.Errorf("%s: nobody was refused at 2.5 times the capacity", test.dist)
		}
	}
}

// M/G/c/c: the share refused is Erlang's B formula, whatever the distribution.
func TestLossOfErlangB(t *testing.T) {
	for d := range Lognormal + 1 {
		r := run{cfg: service(5, 0, 10*ms, time.Second), rate: 400, arrivals: 40_000, seed: 11}
		r.cfg.Dist = d
		r.play(t)
		b := 1.0 // B(0); offered load 4 erlangs
		for c := 1.0; c <= 5; c++ {
			b = 4 * b / (c + 4*b)
		}
		testkit.Tolerance(0.02).Near(t, d.String()+" loss", float64(r.count[Refused])/float64(r.arrivals), b)
	}
}

// Little: the mean number inside is the rate of entering times the mean stay.
// It holds whatever happens inside, timeouts included; here nothing is left to
// chance, so that the two sums are equal up to rounding.
func TestLittle(t *testing.T) {
	r := run{cfg: service(3, 20, 10*ms, 25*ms), rate: 310, arrivals: 20_000, seed: 5}
	r.cfg.Dist = Exponential
	r.play(t)
	if r.count[TimedOut] == 0 || r.count[Served] == 0 {
		t.Fatalf("the run has no variety: %v", r.count)
	}
	testkit.Tolerance(1e-6).Near(t, "requests × seconds inside", r.insiders, r.sojourns.Seconds())
}

func TestErrorShare(t *testing.T) {
	for _, rate := range []float64{0, 0.05, 0.5, 1} {
		r := run{cfg: service(2, 10, 1*ms, time.Second), rate: 1000, arrivals: 20_000, seed: 13}
		r.cfg.ErrorRate = rate
		r.play(t)
		testkit.Tolerance(0.05).Near(t, "share of failures",
			float64(r.count[Failed])/float64(r.count[Failed]+r.count[Served]), rate)
	}
}

// Lognormal service has the configured mean and the tail that the comment states.
func TestLognormalShape(t *testing.T) {
	m := newModel(t, Config{Delay: time.Second, Dist: Lognormal, QueueTimeout: time.Second}, 17)
	const draws = 200_000
	var sum time.Duration
	short, long := 0, 0
	for range draws {
		d, _ := m.draw()
		sum += d
		if d < 607*ms {
			short++
		}
		if d > 6211*ms {
			long++
		}
	}
	testkit.Tolerance(0.01).Near(t, "mean", sum.Seconds()/draws, 1)
	testkit.Tolerance(0.01).Near(t, "share below the median", float64(short)/draws, 0.5)
	testkit.Tolerance(0.05).Near(t, "share above the 99th percentile", float64(long)/draws, 0.01)
}

// Same seed, same results.
func TestSameSeedSameRun(t *testing.T) {
	once := func() run {
		r := run{cfg: service(2, 5, 10*ms, 15*ms), rate: 250, arrivals: 5000, seed: 23}
		r.cfg.Dist, r.cfg.ErrorRate = Lognormal, 0.1
		r.play(t)
		return r
	}
	if a, b := once(), once(); a != b {
		t.Errorf("two runs of one seed differ:\n%+v\n%+v", a, b)
	}
}

// Random calls in any order keep the bookkeeping consistent: every accepted request is returned
// exactly once or was cancelled, and no request waits while a worker is free.
func TestAnyOrderOfCalls(t *testing.T) {
	for seed := range uint64(20) {
		chance := rand.New(rand.NewPCG(seed, 2))
		m := newModel(t, service(3, 8, 5*ms, 20*ms), seed)
		inside := map[int]Handle[int]{}
		now := epoch
		for who := 1; who <= 3000; who++ {
			now = now.Add(time.Duration(chance.IntN(4)-1) * ms) // also back
			switch chance.IntN(8) {
			case 0:
				cfg := service(chance.IntN(5), chance.IntN(10), time.Duration(chance.IntN(9))*ms,
					time.Duration(1+chance.IntN(30))*ms)
				cfg.Dist = Dist(chance.IntN(3))
				if err := m.Change(now, cfg); err != nil {
					t.Fatal(err)
				}
			case 1:
				victim := chance.IntN(who)
				if m.Cancel(inside[victim]) {
					delete(inside, victim)
				}
			default:
				if handle, o := m.Arrive(now, who); !o.Final() {
					inside[who] = handle
				}
			}
			for _, d := range m.Expire(now, nil) {
				if _, ok := inside[d.Who]; !ok {
					t.Fatalf("seed %d: %d %s, but it was not inside", seed, d.Who, d.Outcome)
				}
				delete(inside, d.Who)
			}
			if workers := m.Config().Workers; m.Waiting() > 0 && (workers == 0 || m.Busy() < workers) {
				t.Fatalf("seed %d: %d wait beside a free worker", seed, m.Waiting())
			}
		}
		for _, d := range m.Expire(now.Add(time.Hour), nil) {
			delete(inside, d.Who)
		}
		if len(inside) > 0 || m.Busy() > 0 || m.Waiting() > 0 {
			t.Errorf("seed %d: %d never ended, %d busy, %d waiting", seed, len(inside), m.Busy(), m.Waiting())
		}
	}
}
