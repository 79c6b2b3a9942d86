package session

import (
	"fmt"
	"testing"
	"time"
)

func ExamplePool() {
	now := time.Unix(0, 0)
	p := NewPool(PoolSize{Start: 1, Max: 10, Dials: 64, Grow: true})
	fmt.Println("at the start", p.Begin())
	p.Opened()
	fmt.Println("three wait:", p.Dial(now, 3))
	fmt.Println("and two more:", p.Dial(now, 5))
	// Output:
	// at the start 1
	// three wait: 3
	// and two more: 2
}

// Each case is a sequence of calls of a Pool: the events, and how many dials it requests.
func TestPoolDial(t *testing.T) {
	type step struct {
		at      time.Duration
		tell    string // opened, failed, closed; empty: so many wait
		waiting uint64
		want    int
	}
	const ms = time.Millisecond
	for name, c := range map[string]struct {
		size  PoolSize
		steps []step
	}{
		"nobody waits": {PoolSize{Max: 4, Dials: 64}, []step{{0, "", 0, 0}}},
		"never more than the bound": {PoolSize{Max: 4, Dials: 64}, []step{
			{0, "", 9, 4}, {0, "opened", 0, 0}, {0, "", 9, 0}, {0, "opened", 0, 0}, {0, "closed", 0, 0}, {0, "", 9, 1},
		}},
		"one dial for each that waits": {PoolSize{Max: 100, Dials: 64}, []step{{0, "", 2, 2}, {0, "", 2, 0}, {0, "", 3, 1}}},
		"so many dials at a time": {PoolSize{Max: 1000, Dials: 64}, []step{
			{0, "", 500, 64}, {0, "", 500, 0}, {0, "opened", 0, 0}, {0, "", 500, 1},
		}},
		"growth is bounded in rate": {PoolSize{Max: 1000, Dials: 64, Grow: true}, []step{
			{0, "", 10, 10}, {0, "opened", 0, 0}, {0, "", 500, growthBurst - 10}, {0, "opened", 0, 0},
			{0, "", 500, 0}, {ms, "", 500, 1}, {ms, "", 500, 0}, {2 * ms, "opened", 0, 0}, {3*ms - 1, "", 500, 1},
		}},
		"what was closed is replaced at any rate": {PoolSize{Max: 1000, Dials: 64, Grow: true}, []step{
			{0, "", 64, 64}, {0, "opened", 0, 0}, {0, "", 500, 0}, {0, "closed", 0, 0}, {0, "", 500, 1},
			{0, "opened", 0, 0}, {0, "closed", 0, 0}, {0, "", 500, 1}, {0, "", 500, 0},
		}},
		"after a failure it waits, longer each time": {PoolSize{Max: 100, Dials: 64}, []step{
			{0, "", 2, 2}, {0, "failed", 0, 0}, {0, "", 9, 0}, {backoffMin - 1, "", 9, 0}, {backoffMin, "", 2, 1},
			{5 * ms, "failed", 0, 0}, {5*ms + 2*backoffMin - 1, "", 9, 0}, {5*ms + 2*backoffMin, "", 2, 1},
		}},
		"success ends the waiting": {PoolSize{Max: 100, Dials: 64}, []step{
			{0, "", 3, 3}, {0, "failed", 0, 0}, {0, "failed", 0, 0}, {0, "opened", 0, 0},
			{10 * ms, "", 1, 1}, {10 * ms, "failed", 0, 0}, {10*ms + backoffMin, "", 1, 1},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			start := time.Unix(0, 0)
			p := NewPool(c.size)
			for i, s := range c.steps {
				now := start.Add(s.at)
				switch s.tell {
				case "opened":
					p.Opened()
				case "failed":
					p.Failed(now)
				case "closed":
					p.Closed()
				default:
					if got := p.Dial(now, s.waiting); got != s.want {
						t.Fatalf("step %d: %d wait, it dials %d, want %d", i, s.waiting, got, s.want)
					}
				}
			}
		})
	}
}

func TestPoolBackoffIsBounded(t *testing.T) {
	now := time.Unix(0, 0)
	p := NewPool(PoolSize{Max: 1, Dials: 64})
	for range 50 {
		if got := p.Dial(now, 1); got != 1 {
			t.Fatalf("after the longest wait it dials %d, want 1", got)
		}
		p.Failed(now)
		now = now.Add(backoffMax)
	}
}

func TestPoolLost(t *testing.T) {
	now := time.Unix(0, 0)
	p := NewPool(PoolSize{Start: 2, Max: 1, Dials: 64})
	if n := p.Begin(); n != 1 {
		t.Errorf("it starts with %d connections, the bound is 1", n)
	}
	if p.Lost() {
		t.Error("lost with a dial under way")
	}
	p.Opened()
	if p.Lost() || p.Open() != 1 {
		t.Errorf("lost=%v with %d open connections", p.Lost(), p.Open())
	}
	p.Closed()
	if !p.Lost() {
		t.Error("not lost without any connection")
	}
	p.Dial(now, 1)
	p.Failed(now)
	if !p.Lost() {
		t.Error("not lost after the only dial failed")
	}
}

// A connection that the target did not want idle is replaced while there are
// fewer than at the start, within the bounds on dials.
func TestPoolReplace(t *testing.T) {
	now := time.Unix(0, 0)
	p := NewPool(PoolSize{Start: 3, Max: 9, Dials: 1, Grow: true})
	for range p.Begin() {
		p.Opened()
	}
	if p.Replace(now) {
		t.Error("it replaces with all of them open")
	}
	p.Closed()
	p.Closed()
	if !p.Replace(now) {
		t.Error("it does not replace a closed one")
	}
	if p.Replace(now) {
		t.Error("it dials two at a time, the bound is 1")
	}
	p.Failed(now)
	if p.Replace(now) || !p.Replace(now.Add(backoffMin)) {
		t.Error("after a failed dial it must wait, but not longer")
	}
	p.Opened()
	if p.Open() != 2 || p.Dialing() != 0 {
		t.Errorf("%d open and %d on their way, want 2 and 0", p.Open(), p.Dialing())
	}
}

func TestConnections(t *testing.T) {
	for _, c := range []struct {
		rate float64
		want int
	}{
		{1, startMin}, {100, startMin}, {1000, 5}, {10_000, 23}, {100_000, 140},
	} {
		if got := Connections(c.rate); got != c.want {
			t.Errorf("%v/s starts with %d connections, want %d", c.rate, got, c.want)
		}
	}
}

// A connection that is leaving gives its place to another one, if not too many are.
func TestPoolLeaving(t *testing.T) {
	now := time.Unix(0, 0)
	p := NewPool(PoolSize{Max: 2, Dials: 64, Grow: true})
	open := func() (n int) {
		n = p.Dial(now, 9)
		for range n {
			p.Opened()
		}
		return n
	}
	open()
	for i, want := range []bool{true, true, false} {
		if got := p.Leaving(); got != want || open() != map[bool]int{true: 1}[want] || p.Open() != 2 {
			t.Errorf("%d are leaving: another leaves: %t, %d are open", i, got, p.Open())
		}
	}
	p.Left()
	if !p.Leaving() || p.Open() != 1 || p.Lost() {
		t.Errorf("when one has left no other may leave; %d are open", p.Open())
	}
}
