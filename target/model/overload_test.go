package model

import (
	"math/rand/v2"
	"testing"
	"time"

	"weir/internal/test/testkit"
)

// A stretch is a rate of Poisson arrivals for a time.
type stretch struct {
	rate float64
	span time.Duration
}

// A second is what became of the requests that arrived in one.
type second struct {
	arrived, served, refused, timedOut int
	waits, longest                     time.Duration // of those served
	queue                              int           // at its end
	throughput                         int           // served within it
}

// course plays stretches one after the other, second by second.
func course(t *testing.T, cfg Config, seed uint64, stretches ...stretch) []second {
	t.Helper()
	m := newModel(t, cfg, seed)
	chance := rand.New(rand.NewPCG(seed, 1))
	total := time.Duration(0)
	for _, s := range stretches {
		total += s.span
	}
	rows := make([]second, total/time.Second)
	bear := map[int]int{} // the second in which a request came
	end := func(row int, o Outcome) {
		switch o {
		case Served:
			rows[row].served++
		case Refused:
			rows[row].refused++
		case TimedOut:
			rows[row].timedOut++
		}
	}
	take := func(at time.Time) {
		for _, d := range m.Expire(at, nil) {
			r := &rows[bear[d.Who]]
			end(bear[d.Who], d.Outcome)
			if d.Outcome == Served {
				r.waits += d.Wait
				r.longest = max(r.longest, d.Wait)
				if s := int(d.At.Sub(epoch) / time.Second); s < len(rows) {
					rows[s].throughput++
				}
			}
		}
	}
	now, from, row := epoch, epoch, 0
	for who, i := 1, 0; i < len(stretches); who++ {
		now = now.Add(time.Duration(chance.ExpFloat64() / stretches[i].rate * 1e9))
		for border := epoch.Add(time.Duration(row+1) * time.Second); !now.Before(border) && row < len(rows)-1; row,
			border = row+1, border.Add(time.Second) {
			take(border)
			rows[row].queue = m.Waiting()
		}
		if until := from.Add(stretches[i].span); now.After(until) {
			now, from, i = until, until, i+1
			continue
		}
		bear[who] = row
		rows[row].arrived++
		if _, o := m.Arrive(now, who); o.Final() {
			end(row, o)
		}
		take(now)
	}
	take(now.Add(time.Hour))
	return rows
}

// Under three times the load it can bear the service goes on at its capacity,
// with waits and a queue within their bounds; and when the load is gone
// everything is as before as soon as the queue is served, which takes
// queue / (capacity − load). Nothing of the overload stays behind.
func TestOverloadAndRecovery(t *testing.T) {
	const capacity = 400.0 // 4 workers of 10 ms
	for name, cfg := range map[string]Config{
		"few places":           service(4, 60, 10*ms, time.Second),
		"little patience":      service(4, 100_000, 10*ms, 150*ms),
		"exponential service":  {Delay: 10 * ms, Dist: Exponential, Workers: 4, Queue: 60, QueueTimeout: 150 * ms},
		"both bounds the same": service(4, 60, 10*ms, 150*ms),
	} {
		rows := course(t, cfg, 31, stretch{capacity / 2, 10 * time.Second}, stretch{3 * capacity, 20 * time.Second},
			stretch{capacity / 2, 10 * time.Second})
		// exponential service may take thrice as long
		patience := min(cfg.QueueTimeout, time.Duration(float64(cfg.Queue+1)/capacity*3*1e9))
		var before, after second
		for i, r := range rows {
			if r.served+r.refused+r.timedOut != r.arrived {
				t.Errorf("%s, second %d: %d of %d have an end", name, i, r.served+r.refused+r.timedOut, r.arrived)
			}
			if r.longest > patience || r.queue > cfg.Queue {
				t.Errorf("%s, second %d: somebody waited %v (at most %v), %d wait in %d places", name, i, r.longest, patience,
					r.queue, cfg.Queue)
			}
			switch {
			case i < 10:
				before = before.plus(r)
			case i > 10 && i < 30: // in the first one the queue fills
				// Twenty seconds of exponential service differ by 5 % each.
				testkit.Tolerance(0.16).Near(t, name+": throughput in overload", float64(r.throughput), capacity)
				if share := float64(r.served) / float64(r.arrived); share < 0.25 || share > 0.42 {
					t.Errorf("%s, second %d: %.2f are served, want a third", name, i, share)
				}
			case i > 30:
				after = after.plus(r)
			}
		}
		total := second{}
		for _, r := range rows[11:30] {
			total = total.plus(r)
		}
		testkit.Tolerance(0.02).Near(t, name+": throughput in all of the overload", float64(total.throughput)/19, capacity)
		if after.refused+after.timedOut > 0 || before.refused+before.timedOut > 0 {
			t.Errorf("%s: below capacity %d and %d are refused, %d and %d give up", name, before.refused, after.refused,
				before.timedOut, after.timedOut)
		}
		const slack = 500 * time.Microsecond // by chance
		was, is := before.waits/time.Duration(before.served), after.waits/time.Duration(after.served)
		if (is - was).Abs() > slack {
			t.Errorf("%s: the mean wait is %v before and %v after the overload", name, was, is)
		}
	}
}

func (s second) plus(o second) second {
	return second{
		arrived: s.arrived + o.arrived, served: s.served + o.served, refused: s.refused + o.refused,
		timedOut: s.timedOut + o.timedOut,
		waits:    s.waits + o.waits, longest: max(s.longest, o.longest), throughput: s.throughput + o.throughput,
	}
}

// A queue that the overload has filled is served within queue / (capacity −
// load) when the load drops, to the moment: 60 places at 400/s with nobody
// following take 150 ms, and the next request does not wait.
func TestRecoveryIsAtOnce(t *testing.T) {
	m := newModel(t, service(4, 60, 10*ms, time.Second), 1)
	for who := range 1000 {
		m.Arrive(epoch.Add(time.Duration(who)*ms/1000), who) // a thousand in a millisecond
	}
	if m.Busy() != 4 || m.Waiting() != 60 {
		t.Fatalf("%d are served and %d wait, want 4 and 60", m.Busy(), m.Waiting())
	}
	done := m.Expire(epoch.Add(161*ms), nil)
	if len(done) != 64 || m.Busy() != 0 || m.Waiting() != 0 {
		t.Errorf("%d are done after 16 rounds, %d are served and %d wait", len(done), m.Busy(), m.Waiting())
	}
	for i, d := range done {
		if want := time.Duration(i/4) * 10 * ms; d.Outcome != Served || d.Wait > want || d.Wait < want-ms {
			t.Errorf("number %d %s after waiting %v, want about %v", i, d.Outcome, d.Wait, want)
		}
	}
	if _, o := m.Arrive(epoch.Add(162*ms), -1); o != Started {
		t.Errorf("the next one is %s, want started", o)
	}
}
