package wire

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir/internal/testkit"
	"weir/proxy/gate"
	"weir/proxy/gates"
)

// More loops than places, and clients that ask, wait and leave: everybody who stays is
// answered although nobody looks after a line unless told, no more requests are at the target
// than there are places and loops that looked for one at the same instant, and no place is lost.
func TestGateUnderStress(t *testing.T) {
	const loops, limit, clients, requests = 4, 3, 24, 60
	var inside, most atomic.Int64
	target := newTarget(t, func(c *targetConn) {
		for s := c.next(); s != nil; s = c.next() {
			n := inside.Add(1)
			for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
			}
			inside.Add(-1)
			c.echo(s)
		}
	})
	few := func(c *Config) {
		c.Gate = gates.Settings{Mode: gate.On, Wait: testkit.Patience, Min: limit, Max: limit}
	}
	r := startWith(t, few, target.url(), "EVENT_LOOPS", fmt.Sprint(loops))
	r.sides.each(func(s *side, _ time.Time) { s.lineLooks = true }) // nobody looks after a line but who is told to
	var all sync.WaitGroup
	for i := range clients {
		c := r.dial()
		all.Go(func() {
			for n := range requests {
				c.Send(get)
				if (n+i)%7 == 0 { // leaves while it waits or is answered
					c.Reset()
					c = r.dial()
					continue
				}
				c.Status(200)
			}
			c.Close()
		})
	}
	all.Wait()
	if n := most.Load(); n > limit+loops-1 {
		t.Errorf("%d requests were at the target at a time, with %d places and %d loops", n, limit, loops)
	}
	g := r.sides.gate(r.Targets.All()[0])
	if n := g.Limit(); n != limit {
		t.Errorf("the limit is %d, want %d however many loops there are", n, limit)
	}
	r.until("all places are free", func() bool {
		var waiting atomic.Int64
		r.sides.each(func(s *side, _ time.Time) { waiting.Add(int64(s.line.Len())) })
		_, atTarget := g.Now()
		return g.Taken() == 0 && atTarget == 0 && g.Waiting.Load() == 0 && r.lines.Taken() == 0 && waiting.Load() == 0
	})
	checkBaseLine(r)
}
