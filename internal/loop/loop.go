package loop

import (
	"context"
	"net"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/panjf2000/gnet/v2"

	"weir/internal/deadline"
)

const (
	// deadlineStep is the resolution of Conn.SetDeadline.
	deadlineStep = 20 * time.Millisecond
)

// A Loop is one event loop: one goroutine of gnet that calls all Handlers of
// its connections.
//
// Owned by itself: all methods but Post are for its own turns.
type Loop struct {
	g      *Group
	index  int
	el     gnet.EventLoop
	kernel kernel
	anchor net.Conn
	epoch  time.Time

	now     time.Time // of the turn
	depth   int       // turns may nest: gnet calls back from inside Write and Close
	closing []*Conn   // gone, their Handlers not told yet
	pumps   []*Conn   // asked to be fed
	pumped  []*Conn   // the other half of the two lists that take turns
	conns   connList
	open    atomic.Int64 // accepted connections, read by the listener

	deadlines *deadline.Queue[*Conn]
	coarseAt  time.Duration // when to look at deadlines again
	alarms    alarms
	watched   []*Conn // have unsent bytes
	watchAt   time.Duration
	spares    [][]byte      // buffers for unsent bytes, to be used again
	armed     time.Duration // what the clock was told last

	mu     sync.Mutex
	posted []func(now time.Time)
	ours   []func(now time.Time) // taken from posted, kept to be used again
	woken  atomic.Bool           // a wake-up is on its way
	run    gnet.Runnable         // turn, made once
}

func newLoop(g *Group, index int) *Loop {
	l := &Loop{g: g, index: index, kernel: system{}, deadlines: deadline.New[*Conn](deadlineStep),
		coarseAt: farAway, watchAt: farAway, armed: farAway}
	l.conns.init()
	l.run = gnet.RunnableFunc(l.turn)
	return l
}

// Index is the loop's place in Group.Loops.
func (l *Loop) Index() int { return l.index }

// Now is the time of the current turn.
func (l *Loop) Now() time.Time { return l.now }

// Post has fn called on the loop, in the order of the calls. Calls made while a
// wake-up is on its way share it. Safe for concurrent use. After Stop fn is
// dropped.
func (l *Loop) Post(fn func(now time.Time)) {
	l.mu.Lock()
	l.posted = append(l.posted, fn)
	l.mu.Unlock()
	l.wake()
}

// wake makes the loop have a turn. Safe for concurrent use.
func (l *Loop) wake() {
	if l.woken.Swap(true) {
		return
	}
	// The error is "in shutdown": there is no loop any more to be woken.
	_ = l.el.Execute(context.Background(), l.run)
}

// turn is what a wake-up runs: posted functions, deadlines, watched
// connections; alarms ring in leave.
func (l *Loop) turn(context.Context) error {
	l.woken.Store(false)
	now := l.enter()
	l.runPosted(now)
	at := l.since(now)
	if at >= l.coarseAt {
		l.deadlines.Expire(at, func(c *Conn) { c.expired(now) })
		l.coarseAt = farAway
		if next, ok := l.deadlines.Next(); ok {
			l.coarseAt = next
		}
	}
	if at >= l.watchAt {
		l.watch(now)
	}
	l.armed = farAway // the clock forgets a time once it has come
	l.leave(now)
	return nil
}

func (l *Loop) runPosted(now time.Time) {
	l.mu.Lock()
	l.posted, l.ours = l.ours[:0], l.posted
	l.mu.Unlock()
	for i, fn := range l.ours {
		l.ours[i] = nil
		l.protect(nil, func() { fn(now) })
		l.settle(now)
	}
}

// since is t on the loop's scale, which starts with the Group.
func (l *Loop) since(t time.Time) time.Duration { return t.Sub(l.epoch) }

// rearm tells the clock when this loop has something to do next, if that is
// earlier than what the clock knows.
func (l *Loop) rearm() {
	next := min(l.coarseAt, l.watchAt, l.alarms.next())
	if next < l.armed {
		l.armed = next
		l.g.clock.set(l.index, next)
	}
}

// Each calls f with every connection of the loop that has a Handler. f may
// close connections.
func (l *Loop) Each(f func(c *Conn, h Handler)) {
	for c := l.conns.first(); c != nil; {
		next := l.conns.after(c)
		if c.handler != nil && c.state != stateClosed {
			f(c, c.handler)
		}
		c = next
	}
}

// protect runs f and turns its panic into a count and, when c is given, into
// the close of c. The loop and its other connections live on.
func (l *Loop) protect(c *Conn, f func()) {
	defer l.caught(c)
	f()
}

// caught is deferred around every call of a Handler.
func (l *Loop) caught(c *Conn) {
	v := recover()
	if v == nil {
		return
	}
	l.g.stats.panics.Add(1)
	l.g.cfg.Panicked(v, debug.Stack())
	if c != nil {
		c.Close()
	}
}
