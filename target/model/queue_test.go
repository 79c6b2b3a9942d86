package model

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"weir/internal/test/testkit"
)

// meanWait is the mean time that so many Poisson arrivals wait in the queue of a
// service without bounds, in units of the mean service time, and the load they
// really offered in erlangs: the draws' own means, which differ a little from
// what they are drawn for, and waits depend on the load much.
func meanWait(t *testing.T, cfg Config, rate float64, arrivals int, seed uint64) (wait, load float64) {
	t.Helper()
	m := newModel(t, cfg, seed)
	chance := rand.New(rand.NewPCG(seed, 1))
	born := make([]time.Time, arrivals)
	var waits, services time.Duration
	served := 0
	var done []Completion[int]
	take := func(at time.Time) {
		done = m.Expire(at, done[:0])
		for _, d := range done {
			waits += d.Wait
			services += d.At.Sub(born[d.Who]) - d.Wait
			served++
		}
	}
	now := epoch
	for who := range arrivals {
		now = now.Add(time.Duration(chance.ExpFloat64() / rate * 1e9))
		born[who] = now
		switch _, o := m.Arrive(now, who); o {
		case Started, Queued:
		case Served: // a service time of less than a nanosecond
			served++
		default:
			t.Fatalf("request %d is %s in a service without bounds", who, o)
		}
		take(now)
	}
	take(now.Add(time.Hour))
	if served != arrivals {
		t.Fatalf("%d of %d were served", served, arrivals)
	}
	service := services.Seconds() / float64(served)
	return waits.Seconds() / float64(served) / service, float64(arrivals) / now.Sub(epoch).Seconds() * service
}

// erlangC is the mean wait in an M/M/c queue in units of the mean service time,
// for an offered load of a erlangs (A. K. Erlang, 1917): the probability of
// having to wait, by way of the formula B for loss, times 1/(c−a).
func erlangC(c int, a float64) float64 {
	b := 1.0
	for k := 1.0; k <= float64(c); k++ {
		b = a * b / (k + a*b)
	}
	wait := float64(c) * b / (float64(c) - a*(1-b))
	return wait / (float64(c) - a)
}

// crommelin is the mean wait in an M/D/c queue in units of the service time
// (C. D. Crommelin, 1932). Whoever is in service at t has left at t + 1, so that
// the number inside obeys N(t+1) = max(N(t)−c, 0) + Poisson(a), whose stationary
// distribution is iterated here; by Little's law the wait is the mean length of
// the queue over the rate.
func crommelin(c int, a float64) float64 {
	const most = 250
	poisson := make([]float64, most)
	poisson[0] = math.Exp(-a)
	for k := 1; k < most; k++ {
		poisson[k] = poisson[k-1] * a / float64(k)
	}
	p := make([]float64, most)
	p[0] = 1
	for length, before := 0.0, -1.0; math.Abs(length-before) > 1e-10; {
		next := make([]float64, most)
		for j, pj := range p {
			if pj < 1e-18 {
				continue
			}
			for k, left := 0, max(j-c, 0); left+k < most; k++ {
				next[left+k] += pj * poisson[k]
			}
		}
		before, length, p = length, 0, next
		for j := c + 1; j < most; j++ {
			length += float64(j-c) * p[j]
		}
	}
	queue := 0.0
	for j := c + 1; j < most; j++ {
		queue += float64(j-c) * p[j]
	}
	return queue / a
}

// With one worker the formulas are those that everybody knows.
func TestFormulas(t *testing.T) {
	for _, rho := range []float64{0.3, 0.7, 0.85} {
		testkit.Tolerance(1e-9).Near(t, fmt.Sprintf("M/M/1 at %g", rho), erlangC(1, rho), rho/(1-rho))
		testkit.Tolerance(1e-6).Near(t, fmt.Sprintf("M/D/1 at %g", rho), crommelin(1, rho), rho/(1-rho)/2)
	}
	testkit.Tolerance(1e-9).Near(t, "M/M/2 at 0.5", erlangC(2, 1), 1.0/3) // ρ²/(1−ρ²)
}

// The mean wait is that of queueing theory: of M/M/c with exponential service,
// of M/D/c with constant one, for few workers and many, little load and much.
// So many arrivals leave the mean a standard error of 1 to 2 %.
func TestMeanWait(t *testing.T) {
	const delay = 10 * ms
	for _, c := range []struct {
		workers  int
		load     float64 // of the capacity
		arrivals int
	}{
		{1, 0.5, 120_000}, {1, 0.8, 250_000}, {2, 0.6, 150_000}, {2, 0.8, 250_000}, {3, 0.85, 400_000}, {5, 0.8, 400_000},
	} {
		for dist, law := range map[Dist]func(c int, a float64) float64{Exponential: erlangC, Constant: crommelin} {
			t.Run(fmt.Sprintf("%s, %d workers at %g", dist, c.workers, c.load), func(t *testing.T) {
				t.Parallel()
				cfg := service(c.workers, QueueMax, delay, time.Hour)
				cfg.Dist = dist
				wait, load := meanWait(t, cfg, c.load*float64(c.workers)/delay.Seconds(), c.arrivals, 7)
				testkit.Tolerance(0.01).Near(t, "load", load, c.load*float64(c.workers))
				testkit.Tolerance(0.03).Near(t, "mean wait in service times", wait, law(c.workers, load))
			})
		}
	}
}
