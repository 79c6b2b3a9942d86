package wire

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"weir/internal/loop"
	"weir/internal/testkit"
	"weir/proxy/gate"
	"weir/proxy/gates"
)

// loopOf is the number of the loop that has the client's connection.
func (r *rig) loopOf(c *testkit.Conn) (index int) {
	r.t.Helper()
	index = -1
	r.until("the connection has a loop", func() bool {
		r.sides.each(func(s *side, _ time.Time) {
			s.loop.Each(func(conn *loop.Conn, _ loop.Handler) {
				if conn.Remote().String() == c.LocalAddr().String() {
					index = s.loop.Index()
				}
			})
		})
		return index >= 0
	})
	return index
}

// dialOn connects to a loop.
func (r *rig) dialOn(index int) *testkit.Conn {
	r.t.Helper()
	for {
		c := r.dial()
		if r.loopOf(c) == index {
			return c
		}
	}
}

// Loops share the places of a target. A free place goes to the loop with fewer places, which is
// woken.
func TestLoopsSharePlaces(t *testing.T) {
	var open [2]chan bool // answers requests of a loop
	for i := range open {
		open[i] = make(chan bool, 20)
	}
	target := newTarget(t, func(c *targetConn) {
		for s := c.next(); s != nil; s = c.next() {
			await(t, open[strings.Index("01", s.target()[1:])])
			c.echo(s)
		}
	})
	six := func(c *Config) { c.Gate = gates.Settings{Mode: gate.On, Wait: testkit.Patience, Min: 6, Max: 6} }
	r := startWith(t, six, target.url())
	r.sides.each(func(s *side, _ time.Time) { s.lineLooks = true }) // nobody looks after a line but who is told to
	has := func(want [2]int) {
		t.Helper()
		r.until("the loops have their places", func() bool {
			var got [2]int
			r.sides.each(func(s *side, _ time.Time) {
				for _, at := range s.targets.Targets() {
					got[s.loop.Index()] += at.Value.pool.Short()
				}
			})
			return got == want
		})
	}
	var held []*testkit.Conn
	ask := func(index int) {
		c := r.dialOn(index)
		c.Send(request("/" + strconv.Itoa(index)))
		held = append(held, c)
		r.waiting(len(held))
	}
	for range 6 {
		ask(0)
	}
	for range 3 {
		ask(0)
		ask(1)
	}
	has([2]int{6, 0})
	for _, want := range [][2]int{{5, 1}, {4, 2}, {3, 3}, {3, 3}} {
		open[0] <- true
		has(want)
	}
	for range 5 {
		open[0] <- true
		open[1] <- true
	}
	for _, c := range held {
		c.Status(200)
	}
	has([2]int{0, 0})
	if g := r.sides.gate(r.Targets.All()[0]); g.Taken() != 0 || g.Waiting.Load() != 0 {
		t.Errorf("in the end %d places are taken, and %d wait", g.Taken(), g.Waiting.Load())
	}
}

// A loop that has ejected the target finds out that it is back although another loop has all
// places.
func TestEjectedLoopProbes(t *testing.T) {
	b := newBarrier()
	one := func(c *Config) { c.Gate = gates.Settings{Mode: gate.On, Wait: testkit.Patience, Min: 1, Max: 1} }
	r := startWith(t, one, newTarget(t, b.script).url(), "EVENT_LOOPS", "2")
	held := r.dialOn(0)
	held.Send(request("/held"))
	b.next(t)
	queued := r.dialOn(0)
	queued.Send(request("/queued"))
	r.waiting(2)
	r.sides.each(func(s *side, now time.Time) {
		if s.loop.Index() == 1 {
			at := s.targets.Targets()[0]
			for range 100 {
				at.Answered(now, at.Mark(), 503)
			}
			at.Value.note(now)
		}
	})
	probe := r.dialOn(1)
	probe.Send(request("/probe"))
	b.next(t)
	for range 3 {
		b.open <- true
	}
	for _, c := range []*testkit.Conn{held, queued, probe} {
		c.Status(200)
	}
}
