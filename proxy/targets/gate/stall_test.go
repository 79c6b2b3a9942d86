package gate

import (
	"testing"
	"time"
)

// answered returns a gate that has had answers which took so long, and when the last one came.
func answered(took time.Duration) (*Gate, time.Time) {
	g, now := New(Config{Max: 1000}), time.Unix(1_000_000_000, 0)
	for i := range 3000 {
		now = now.Add(5 * time.Millisecond)
		// times that vary, as most do
		g.Answered(now, &Response{Sent: now.Add(-took * time.Duration(50+i*37%100) / 100), InFlight: 4})
	}
	return g, now
}

// While requests wait and nothing is answered, the limit rises after ten times the usual time, and
// then each time after twice as long, a few times. The next answer ends that.
func TestWaits(t *testing.T) {
	const took = 20 * time.Millisecond
	g, last := answered(took)
	limit := g.Limit()
	usual := g.Usual(0)
	if usual < took/2 || usual > 2*took {
		t.Fatalf("answers usually take %v, want about %v", usual, took)
	}
	var rises []time.Duration
	for at := time.Duration(0); at < time.Hour; at += time.Millisecond {
		if before := g.Limit(); g.Waits(last.Add(at), 0) {
			rises = append(rises, at)
			if g.Limit() <= before || g.Limit() > 2*before {
				t.Errorf("after %v the limit rises from %d to %d", at, before, g.Limit())
			}
		}
	}
	if len(rises) != stallMost {
		t.Fatalf("the limit rises %d times, want %d", len(rises), stallMost)
	}
	for i, at := range rises {
		if want := LongFactor * usual << i; at < want || at > want+time.Millisecond {
			t.Errorf("the limit rises after %v, want %v", at, want)
		}
	}
	if g.Limit() < 3*limit {
		t.Errorf("the limit was %d and is %d", limit, g.Limit())
	}
	now := last.Add(time.Hour)
	g.Answered(now, &Response{Sent: now.Add(-took), InFlight: 4})
	if !g.Waits(now.Add(LongFactor*usual+time.Second), 0) {
		t.Error("after another answer the limit does not rise any more")
	}
}

// A gate that knows nothing of its target yet does not rise: its limit is the upper bound.
func TestWaitsWithoutAnswers(t *testing.T) {
	g := New(Config{})
	if g.Waits(time.Unix(1_000_000_000, 0), 0) || g.Usual(0) != 0 || g.Long(0, time.Hour) {
		t.Error("a new gate knows what is usual")
	}
}

// A request takes long from ten times the usual time on, unless requests wait in the target.
func TestLong(t *testing.T) {
	g, _ := answered(20 * time.Millisecond)
	g.starts = false
	usual := g.Usual(0)
	for _, test := range []struct {
		took    time.Duration
		waiting float64
		want    bool
	}{{LongFactor * usual, 0, false}, {LongFactor*usual + 1, 0, true}, {LongFactor*usual + 1, .5, false}} {
		g.room.waiting = test.waiting
		if got := g.Long(0, test.took); got != test.want {
			t.Errorf("%v is long: %t, want %t (%.1f of the time is waiting)", test.took, got, test.want, test.waiting)
		}
	}
}

// What was sent before a standstill does not count, whatever the first answer after it is, nor does a
// former limit keep what is sent after it from counting.
func TestStandstill(t *testing.T) {
	const took, stood = 20 * time.Millisecond, 400 * time.Millisecond
	for _, refused := range []bool{false, true} {
		g, now := answered(took)
		g.first, g.starts = false, false
		sent := now.Add(-took)
		g.window.few, g.window.until = 1, g.slowdown.time(now) // a former limit, which no longer counts
		now = now.Add(stood)
		g.Answered(now, &Response{Sent: sent, InFlight: 4, Refused: refused})
		before := g.window.goods
		for range 15 {
			g.Answered(now, &Response{Sent: sent, InFlight: 4})
		}
		if n := g.window.goods - before; n > 0 {
			t.Errorf("the first is a refusal: %t; %d answers to what was sent before count", refused, n)
		}
		now = now.Add(2 * took)
		g.Answered(now, &Response{Sent: now.Add(-took), InFlight: 4})
		if g.window.goods != before+1 {
			t.Errorf("the first is a refusal: %t; an answer to what was sent after it does not count", refused)
		}
	}
}

// Requests that fail after a long time do not count if others that were sent later had good answers. If
// there were none, the target is down.
func TestFailsByItself(t *testing.T) {
	const took, timeout = 20 * time.Millisecond, 5 * time.Second
	for _, others := range []bool{true, false} {
		g, now := answered(took)
		limit := g.Limit()
		for range 2 * downRow {
			now = now.Add(timeout)
			if others {
				g.Answered(now, &Response{Sent: now.Add(-took), InFlight: 4})
			}
			g.Answered(now, &Response{Sent: now.Add(-timeout), InFlight: 4, Refused: true})
		}
		if g.Down() == others || others && g.Limit() < limit {
			t.Errorf("with good answers: %t; down: %t, the limit was %d and is %d", others, g.Down(), limit, g.Limit())
		}
	}
}

// A look ends if the requests in flight do not become fewer.
func TestLookFails(t *testing.T) {
	g, now := answered(20 * time.Millisecond)
	g.set(100)
	g.probe.limit, g.probe.last = g.limit, now
	g.set(50)
	g.slowdown.last += time.Second // answers keep coming
	if g.Waits(now.Add(time.Second), 0) || g.Limit() != 50 {
		t.Errorf("the look has ended: the limit is %d", g.Limit())
	}
	g.slowdown.last += 9 * time.Second
	if !g.Waits(now.Add(10*time.Second), 0) || g.Limit() != 100 {
		t.Errorf("the look has not ended: the limit is %d", g.Limit())
	}
}
