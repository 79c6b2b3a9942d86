package loop

import (
	"context"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/panjf2000/gnet/v2"

	"weir/internal/net/loop/deadline"
)

// deadlineStep is the resolution of Conn.SetDeadline.
const deadlineStep = 20 * time.Millisecond

// A Loop is one event loop: a goroutine of gnet that calls all Handlers of its connections.
//
// Owned by itself: all methods except Post must be called during its turns.
type Loop struct {
	g      *Group
	index  int
	el     gnet.EventLoop
	system System
	epoch  time.Time

	now     time.Time    // of the turn
	read    time.Time    // when both clocks were last read
	depth   int          // nesting of turns: gnet calls back during Write and Close
	closing []*Conn      // closed, and their Handlers not notified yet
	pumps   []*Conn      // to be fed
	pumped  []*Conn      // memory for the next pumps
	conns   []*Conn      // see Conn.at
	open    atomic.Int64 // accepted connections, read by the listener

	deadlines *deadline.Queue[*Conn]
	coarseAt  time.Duration // when to check deadlines again
	alarms    alarms
	watched   []*Conn // connections with unsent bytes
	watchAt   time.Duration
	spares    [][]byte // free buffers for unsent bytes
	fetched   []byte   // memory for Conn.Fetch

	dials map[string]*pacedDials // by address

	turnBatch  []*Conn // connections that have collected in this turn,
	roundBatch []*Conn // and until the end of the round; see batch.go

	armed time.Duration // time last given to the clock

	mu     sync.Mutex
	posted []func(now time.Time)
	ours   []func(now time.Time) // memory for the next posted
	woken  atomic.Bool           // a wake-up is pending
	run    gnet.Runnable         // l.turn
}

func newLoop(g *Group, index int, epoch time.Time) *Loop {
	l := &Loop{g: g, index: index, system: g.cfg.System, epoch: epoch, deadlines: deadline.New[*Conn](deadlineStep),
		dials:    make(map[string]*pacedDials),
		coarseAt: never, watchAt: never, armed: never}
	l.run = gnet.RunnableFunc(l.turn)
	return l
}

// Index returns the loop's index in Group.Loops.
func (l *Loop) Index() int { return l.index }

// Now returns the time of the current turn.
func (l *Loop) Now() time.Time { return l.now }

// Post calls fn on the loop, in the order of the calls of Post. Calls while a wake-up is pending
// share it. After Stop fn is dropped. Safe for concurrent use.
func (l *Loop) Post(fn func(now time.Time)) {
	l.mu.Lock()
	l.posted = append(l.posted, fn)
	l.mu.Unlock()
	l.wake()
}

// wake makes the loop run a turn. Safe for concurrent use.
func (l *Loop) wake() {
	if l.woken.Swap(true) {
		return
	}
	// The error is "in shutdown": the loop has ended.
	_ = l.el.Execute(context.Background(), l.run)
}

// turn is run by a wake-up: it handles posted functions, deadlines and watched connections.
// leave rings alarms.
func (l *Loop) turn(context.Context) error {
	l.woken.Store(false)
	now := l.enter()
	l.runPosted(now)
	at := l.since(now)
	if at >= l.coarseAt {
		l.deadlines.Expire(at, func(c *Conn) { c.expired(now) })
		l.coarseAt = never
		if next, ok := l.deadlines.Next(); ok {
			l.coarseAt = next
		}
	}
	if at >= l.watchAt {
		l.watch(now)
	}
	l.settle(now)
	l.endRound()    // gnet runs wake-ups after the other events that it has found
	l.armed = never // the clock has cleared the time
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

// since converts t to the loop's time, which starts with the Group.
func (l *Loop) since(t time.Time) time.Duration { return t.Sub(l.epoch) }

// rearm sets the timer to when this loop has something to do next, if that is earlier than the
// time set.
func (l *Loop) rearm() {
	next := min(l.coarseAt, l.watchAt, l.alarms.next())
	if next < l.armed {
		l.armed = next
		l.system.SetTimer(l.index, l.epoch.Add(next))
	}
}

// Each calls f for every connection of the loop that has a Handler. f may close connections.
func (l *Loop) Each(f func(c *Conn, h Handler)) {
	for _, c := range l.conns {
		if c.handler != nil && c.state != stateClosed {
			f(c, c.handler)
		}
	}
}

// protect runs f. A panic is counted and, if c is not nil, closes c. The loop continues.
func (l *Loop) protect(c *Conn, f func()) {
	defer l.caught(c)
	f()
}

// caught recovers a panic; it is deferred around every call of a Handler.
func (l *Loop) caught(c *Conn) {
	v := recover()
	if v == nil {
		return
	}
	l.g.stats.Panics.Add(1)
	l.g.cfg.Panicked(v, debug.Stack())
	if c != nil {
		c.Close()
	}
}
