package upstream

import "sync/atomic"

// QueueSet connects the queues of several loops, which wait for the same places. Within a
// queue the Queue decides which waiter is next. Among queues, the next place goes to the loop
// with a waiter of the highest priority, and of these to the one with the fewest places.
// Loops without places take turns.
//
// Safe for concurrent use: all fields are atomic words.
type QueueSet struct {
	asking atomic.Int32 // number of loops that ask
	served atomic.Int32 // the loop that last got a place while others waited
	stood  standstill
	loops  []demand
}

// A demand is what other loops need to know about a queue.
type demand struct {
	rank  atomic.Int64 // PriorityLevels minus the highest rank that waits; 0: no waiter may take the next place
	taken atomic.Int64 // places of the loop
	gave  atomic.Int64 // when one was last given back, see instant
	shed  atomic.Int64 // when one that was not greedy was last shed
	_     [128 - 32]byte

	clients       [shareClients]holding
	routes        [shareRoutes]holding
	clientHolders [shareClients / 64]atomic.Uint64 // see holdings
	routeHolders  [shareRoutes / 64]atomic.Uint64
	_             [128 - (shareClients+shareRoutes)/8%128]byte // keeps what follows, the next loop's, on other cache lines
}

// NewQueueSet returns the shared state of the given number of queues.
func NewQueueSet(loops int) *QueueSet { return &QueueSet{loops: make([]demand, loops)} }

// JoinSet makes the new queue one of several.
func (l *Queue[W]) JoinSet(of *QueueSet, loop int) {
	l.of, l.loop, l.own = of, loop, &of.loops[loop]
	clients, routes := make([]holdings, len(of.loops)), make([]holdings, len(of.loops))
	for i := range of.loops {
		s := &of.loops[i]
		clients[i], routes[i] = holdings{s.clients[:], s.clientHolders[:]}, holdings{s.routes[:], s.routeHolders[:]}
	}
	l.clients, l.routes = newDivision(clients, loop), newDivision(routes, loop)
}

// Idle reports whether no waiter in any queue may take a place.
func (l *Queue[W]) Idle() bool { return l.count == 0 && l.of.asking.Load() == 0 }

// Publish tells other loops that a waiter of the queue, if there is one, may take the next free place. It
// reports whether other loops did not know of any.
func (l *Queue[W]) Publish() (news bool) { return l.publish(PriorityLevels - int64(l.Rank())) }

// Withdraw tells other loops that no waiter of the queue may take a place.
func (l *Queue[W]) Withdraw() { l.publish(0) }

func (l *Queue[W]) publish(now int64) (news bool) {
	s := l.own
	before := s.rank.Load()
	if before == now {
		return false
	}
	s.rank.Store(now)
	switch {
	case before == 0:
		l.of.asking.Add(1)
		return len(l.of.loops) > 1
	case now == 0:
		l.of.asking.Add(-1)
	}
	return false
}

// republish publishes the highest rank that waits, if one was published.
func (l *Queue[W]) republish() {
	if l.own.rank.Load() > 0 {
		l.Publish()
	}
}

// Rank returns the highest rank that waits, or PriorityLevels.
func (l *Queue[W]) Rank() int {
	for i := range l.ranks {
		if l.ranks[i].count > 0 {
			return i
		}
	}
	return PriorityLevels
}

// Contested reports whether other loops ask for places.
func (l *Queue[W]) Contested() bool {
	others := l.of.asking.Load()
	if others > 0 && l.own.rank.Load() > 0 {
		others--
	}
	return others > 0
}

// Rival returns the loop whose queue gets the next place at a target instead of a waiter
// of the given rank on this loop, or -1. Rank PriorityLevels means that no waiter on this loop may
// take the place. open reports whether a loop sends requests to the target.
func (l *Queue[W]) Rival(rank int, open func(loop int) bool) int {
	if !l.Contested() {
		return -1
	}
	best, highest, fewest := -1, PriorityLevels-int64(rank), l.own.taken.Load()
	turn := l.of.turn(l.loop)
	for i := range l.of.loops {
		s := &l.of.loops[i]
		asks := s.rank.Load()
		if i == l.loop || asks == 0 || asks < highest {
			continue
		}
		n := s.taken.Load()
		if (asks > highest || n < fewest || n == 0 && fewest == 0 && l.of.turn(i) < turn) && open(i) {
			best, highest, fewest, turn = i, asks, n, l.of.turn(i)
		}
	}
	return best
}

// turn returns how many other loops come before the given one.
func (ls *QueueSet) turn(loop int) int {
	return (loop - int(ls.served.Load()) - 1 + len(ls.loops)) % len(ls.loops)
}

func gave(s *demand) int64 { return s.gave.Load() }
func shed(s *demand) int64 { return s.shed.Load() }

// latest returns the latest time of those of all loops.
func (ls *QueueSet) latest(of func(*demand) int64) (last int64) {
	for i := range ls.loops {
		last = max(last, of(&ls.loops[i]))
	}
	return last
}

// Taken returns the number of places of all loops.
func (ls *QueueSet) Taken() (n int) {
	for i := range ls.loops {
		n += int(ls.loops[i].taken.Load())
	}
	return n
}
