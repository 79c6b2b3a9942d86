package gatetest_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"weir/proxy/targets/gate"
)

// A loop is a target with one worker that 64 clients keep busy: each sends its next request when
// it has its answer and the gate has a place.
type loop struct {
	rng   *rand.Rand
	gate  *gate.Gate
	now   time.Time
	queue []gate.Response
}

const clients = 64

func newLoop(seed uint64, slo time.Duration) *loop {
	return &loop{
		rng: rand.New(rand.NewPCG(seed, 0)), gate: gate.New(gate.Config{Max: 512, SLO: slo}),
		now: time.Unix(1_768_840_200, 0),
	}
}

// run answers for so long, each after service on average, and calls do before each answer.
func (l *loop) run(long, service time.Duration, do func(limit int)) {
	for end := l.now.Add(long); l.now.Before(end); {
		limit := l.gate.Limit()
		for len(l.queue) < min(clients, limit) {
			n := len(l.queue) + 1
			l.queue = append(l.queue, gate.Response{Sent: l.now, InFlight: n, Full: n >= limit})
		}
		do(limit)
		l.now = l.now.Add(time.Duration(l.rng.ExpFloat64() * float64(service)))
		a := l.queue[0]
		l.queue = l.queue[1:]
		l.gate.Answered(l.now, &a)
	}
}

func ignore(int) {}

// A gate holds no requests back from a target that answers all of them within two
// milliseconds, although 63 of 64 wait there.
func TestFastTarget(t *testing.T) {
	t.Parallel()
	for seed := range seeds {
		l := newLoop(seed, 0)
		l.run(sec, 25*time.Microsecond, ignore) // there is a look at the target first
		held, all := 0, 0
		l.run(9*sec, 25*time.Microsecond, func(limit int) {
			if all++; limit < clients {
				held++
			}
		})
		if share := float64(held) / float64(all); share > .01 {
			t.Errorf("seed %d: the gate holds requests back during %.2f of the time, limit %d", seed, share, l.gate.Limit())
		}
		if waiting := l.gate.State().Waiting; waiting < .9 {
			t.Errorf("seed %d: %.2f of the answer time is reported to be waiting, want nearly all", seed, waiting)
		}
	}
}

// It does hold them back if clients expect answers sooner.
func TestFastTargetSLO(t *testing.T) {
	t.Parallel()
	for seed := range seeds {
		l := newLoop(seed, ms)
		l.run(5*sec, 25*time.Microsecond, ignore)
		sum, all := 0, 0
		l.run(5*sec, 25*time.Microsecond, func(limit int) { sum, all = sum+limit, all+1 })
		if mean := float64(sum) / float64(all); mean > clients/2 {
			t.Errorf("seed %d: the limit is %.1f, want %d at most", seed, mean, clients/2)
		}
	}
}

// When such a target becomes many times slower, the limit falls although it did not bind: nearly all
// requests in flight wait.
func TestFastTargetSlows(t *testing.T) {
	t.Parallel()
	for _, slow := range []time.Duration{ms, 3 * ms} {
		for seed := range 4 * seeds {
			l := newLoop(seed, 0)
			l.run(10*sec, 25*time.Microsecond, ignore)
			l.run(6*sec, slow, ignore)
			sum, all := 0, 0
			l.run(4*sec, slow, func(limit int) { sum, all = sum+limit, all+1 })
			if mean := float64(sum) / float64(all); mean > clients/2 {
				t.Errorf("seed %d: six seconds after answers began to take %v the limit is %.1f, want %d at most", seed, slow,
					mean, clients/2)
			}
		}
	}
}
