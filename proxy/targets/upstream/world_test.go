package upstream

import (
	"math/rand/v2"
	"slices"
	"testing"

	"weir/internal/net/share"
)

// A fate is what became of a waiter.
type fate string

const (
	waits     fate = "waits"
	served    fate = "served"
	failed    fate = "failed"
	cancelled fate = "cancelled"
	refused   fate = "refused"
)

// A world is the owner of a Pool, with its own plain books on every connection
// and every waiter. After each step the pool must say what the books say.
type world struct {
	t    *testing.T
	r    *rand.Rand
	pool *Pool[int, int]

	most, waitMax int
	idle, busy    []int // connections; the idle one used last is last
	leaving       []int // connections to be closed
	retired       bool
	dialing       int                  // connects under way
	queue, fresh  []*Waiter[int]       // who waits, in the order of arrival
	behind        []*Waiter[int]       // likewise, behind those
	on            map[int]*Waiter[int] // who is on a busy connection
	has           [worldClients]int    // connections that each client holds or waits for in front
	fates         []fate               // by the waiter's Value
	conns         int                  // ever opened
	extra         bool                 // somebody asked for a fresh connection
	passed        bool                 // the last one of the queue that was served had not waited longest,
	waited        bool                 // and its client had not the fewest connections
}

// worldClients is how many clients there are; the first sends most requests.
const worldClients = 3

func newWorld(t *testing.T, r *rand.Rand, most, waitMax int) *world {
	return &world{t: t, r: r, on: map[int]*Waiter[int]{}, pool: NewPool[int, int](most, most, waitMax), most: most,
		waitMax: waitMax}
}

// acquire has a new waiter ask for a connection.
func (w *world) acquire(fresh bool) {
	w.extra = w.extra || fresh
	waiter := &Waiter[int]{Value: len(w.fates)}
	client := 0
	if w.r != nil {
		client = max(0, w.r.IntN(3+worldClients)-3)
	}
	waiter.SetClient(share.Client{}, uint64(client))
	left, has := w.most-w.held()-1, w.has[client]
	behind := !fresh && left < w.most/8 && has > 0 && has+1 > left
	c, grant := w.pool.Acquire(waiter, fresh)
	keeps := len(w.queue) == 0 || w.few(waiter) || w.full()
	switch {
	case len(w.idle) > 0 && !fresh && !behind && keeps:
		last := len(w.idle) - 1
		w.want(grant == Ready && c == w.idle[last], "acquire gives the idle connection used last, %d: got %d, grant %d",
			w.idle[last], c, grant)
		w.idle, w.busy = w.idle[:last], append(w.busy, c)
		w.on[c] = waiter
		w.has[client]++
		w.fates = append(w.fates, served)
	case len(w.queue)+len(w.fresh)+len(w.behind) == w.waitMax || behind && len(w.behind) == w.waitMax-w.waitMax/8:
		w.want(grant == Full, "no place in the line: grant %d", grant)
		w.fates = append(w.fates, refused)
	default:
		w.want(grant == Wait || grant == WaitAndDial, "a place in the line: grant %d", grant)
		switch {
		case fresh:
			w.fresh = append(w.fresh, waiter)
		case behind:
			w.behind = append(w.behind, waiter)
		default:
			w.queue = append(w.queue, waiter)
		}
		if !behind {
			w.has[client]++
		}
		w.fates = append(w.fates, waits)
		w.dial(grant == WaitAndDial, w.lacking())
	}
	w.want(waiter.Waiting() == (w.fates[waiter.Value] == waits), "a waiter that %s: Waiting says %t",
		w.fates[waiter.Value], waiter.Waiting())
}

// held is how many requests have a connection or wait for one, but not behind others.
func (w *world) held() int { return len(w.busy) + len(w.queue) + len(w.fresh) }

// alone is how many connections one client may hold.
func (w *world) alone() int { return w.most - w.most/8 }

// over ends a request in flight.
func (w *world) over(waiter *Waiter[int]) {
	w.pool.End(waiter)
	w.pool.End(waiter)
	w.has[waiter.slot]--
}

// few reports whether every client that waits has many more connections than that of a waiter.
func (w *world) few(waiter *Waiter[int]) bool {
	return len(w.queue) > 0 && !slices.ContainsFunc(w.queue, func(other *Waiter[int]) bool {
		return w.uses(other.slot) < fewTimes*(w.has[waiter.slot]+1)
	})
}

// full reports whether there is no room for one more dial.
func (w *world) full() bool { return len(w.idle)+len(w.busy)+len(w.leaving)+w.dialing >= w.most }

// lacking reports whether a waiter has no dial under way for it although there
// is room, and it could take the connection, or although it must have one.
func (w *world) lacking() bool {
	waiting := len(w.queue) + len(w.fresh) + min(len(w.behind), max(0, w.alone()-w.held()))
	return w.dialing < len(w.fresh) || w.dialing < waiting && !w.full()
}

// dial notes that the pool wants, or does not want, one more dial.
func (w *world) dial(wanted, lacking bool) {
	w.want(wanted == lacking, "a dial is wanted: %t, needed: %t", wanted, lacking)
	if wanted {
		w.dialing++
	}
}

// release gives a busy connection back.
func (w *world) release(i int) {
	c := w.busy[i]
	beyond := len(w.idle)+len(w.busy) > w.most
	by := w.on[c]
	w.over(by)
	delete(w.on, c)
	next := w.pool.Release(c, by)
	w.busy = slices.Delete(w.busy, i, i+1)
	dialled := w.dialing >= w.waiting()
	keeps := dialled && !w.retired && w.few(by)
	if queue := w.nextQueue(); queue != nil && !beyond && !keeps {
		w.serve(c, next, queue)
		return
	}
	w.want(next == nil, "connection %d went to a waiter: beyond the bound %t, its client keeps it %t", c, beyond, keeps)
	w.rest(c, beyond)
}

// nextQueue is the queue whose first gets a connection that has served before; nil: nobody does.
func (w *world) nextQueue() *[]*Waiter[int] {
	switch {
	case len(w.queue) > 0:
		return &w.queue
	case len(w.behind) > 0 && len(w.busy) < w.alone():
		return &w.behind
	}
	return nil
}

// serve gives a connection to the first of a queue.
func (w *world) serve(c int, next *Waiter[int], queue *[]*Waiter[int]) {
	if queue == &w.behind {
		w.has[next.slot]++
	}
	w.next(next, queue, served)
	w.busy = append(w.busy, c)
	w.on[c] = next
}

// rest records a connection that is no longer used: it becomes idle or leaves.
func (w *world) rest(c int, beyond bool) {
	if beyond || w.retired {
		w.leaving = append(w.leaving, c)
	} else {
		w.idle = append(w.idle, c)
	}
}

// retire has the pool end.
func (w *world) retire() {
	out := w.pool.Retire()
	w.want(slices.Equal(out, w.idle), "idle ones to close: %v, in the books %v", out, w.idle)
	w.leaving = append(w.leaving, w.idle...)
	w.idle, w.retired = nil, true
}

// dialled ends a dial well.
func (w *world) dialled() {
	w.conns++
	w.dialing--
	next := w.pool.Dialled(w.conns)
	queue := w.nextQueue()
	if len(w.fresh) > 0 {
		queue = &w.fresh
	}
	if queue == nil {
		w.want(next == nil, "nobody waits for a new connection")
		w.rest(w.conns, len(w.idle)+len(w.busy) >= w.most)
		return
	}
	w.serve(w.conns, next, queue)
}

// dialFailed ends a dial badly.
func (w *world) dialFailed() {
	w.dialing--
	next, again := w.pool.DialFailed()
	queue := w.nextQueue()
	if len(w.fresh) > 0 {
		queue = &w.fresh
	}
	switch {
	case queue == nil:
		w.want(next == nil, "nobody is to be told of a failed dial")
	case queue != &w.fresh && len(w.idle) > 0:
		w.want(next == nil, "waiter %v has failed while a connection is idle", next)
	default:
		if queue == &w.behind {
			w.has[next.slot]++
		}
		w.leave(next, queue, 0, failed)
		w.over(next)
	}
	if again {
		w.dial(true, w.lacking())
		w.spare()
	} else {
		w.spare()
		w.dial(false, w.lacking())
	}
}

// spare has an idle connection serve who waits without a dial.
func (w *world) spare() {
	c, next := w.pool.Spare()
	queue := w.nextQueue()
	if len(w.idle) == 0 || queue == nil || w.dialing >= w.waiting() {
		w.want(next == nil, "an idle connection goes to waiter %v", next)
		return
	}
	last := len(w.idle) - 1
	w.want(next != nil && c == w.idle[last], "waiter %v gets connection %d, want %d", next, c, w.idle[last])
	w.idle = w.idle[:last]
	w.serve(c, next, queue)
}

// waiting is how many wait.
func (w *world) waiting() int { return len(w.queue) + len(w.fresh) + len(w.behind) }

// next checks that next leaves the queue in its turn. That is the order of arrival, but of two from the usual queue one
// may be the first of the client that has the fewest connections.
func (w *world) next(next *Waiter[int], queue *[]*Waiter[int], became fate) {
	at := 0
	if queue == &w.queue {
		at = slices.IndexFunc(w.queue, func(waiter *Waiter[int]) bool { return waiter.slot == next.slot })
		few := !slices.ContainsFunc(w.queue, func(other *Waiter[int]) bool {
			return w.uses(other.slot) < w.uses(next.slot)
		})
		w.want(at == 0 || few && !w.passed, "waiter %d is served before %d; its client has the fewest: %t, and before: %t",
			next.Value, w.queue[0].Value, few, w.passed)
		w.want(few || !w.waited, "clients with more connections are served twice")
		w.passed, w.waited = at > 0, !few
	}
	w.leave(next, queue, at, became)
}

// leave checks that next is the waiter at an index of the queue, which it leaves.
func (w *world) leave(next *Waiter[int], queue *[]*Waiter[int], at int, became fate) {
	if want := (*queue)[at]; next != want {
		w.t.Fatalf("first in, first out: want waiter %d, got %+v", want.Value, next)
	}
	w.want(!next.Waiting(), "waiter %d still stands in line", next.Value)
	w.end(next, became)
	*queue = slices.Delete(*queue, at, at+1)
}

// uses is how many connections the client in a slot has, or is about to get fresh.
func (w *world) uses(slot uint16) int {
	n := w.has[slot]
	for _, waiter := range w.queue {
		if waiter.slot == slot {
			n--
		}
	}
	return n
}

// end notes what became of a waiter; it becomes something only once.
func (w *world) end(waiter *Waiter[int], became fate) {
	w.want(w.fates[waiter.Value] == waits, "waiter %d was %s before it was %s", waiter.Value, w.fates[waiter.Value],
		became)
	w.fates[waiter.Value] = became
}

// lost has a connection of the list end.
func (w *world) lost(list *[]int, i int) {
	c := (*list)[i]
	*list = slices.Delete(*list, i, i+1)
	lacking := w.lacking()
	w.dial(w.pool.Lost(c), lacking)
	if waiter := w.on[c]; waiter != nil {
		delete(w.on, c)
		w.over(waiter)
	}
}

// cancel takes a waiter out of its queue; twice is as good as once.
func (w *world) cancel(queue *[]*Waiter[int], i int) {
	waiter := (*queue)[i]
	*queue = slices.Delete(*queue, i, i+1)
	w.pool.Cancel(waiter)
	w.pool.Cancel(waiter)
	w.want(!waiter.Waiting(), "waiter %d was cancelled and waits", waiter.Value)
	w.end(waiter, cancelled)
	if queue != &w.behind {
		w.over(waiter)
	}
}

// check compares the pool's numbers with the books, and looks at the laws that
// hold between any two steps.
func (w *world) check() {
	p := w.pool
	w.want(p.Idle() == len(w.idle), "idle: %d, in the books %d", p.Idle(), len(w.idle))
	w.want(p.Busy() == len(w.busy), "busy: %d, in the books %d", p.Busy(), len(w.busy))
	w.want(p.Connecting() == w.dialing, "connecting: %d, in the books %d", p.Connecting(), w.dialing)
	open := len(w.idle) + len(w.busy) + len(w.leaving)
	w.want(p.Size() == open, "open: %d, in the books %d", p.Size(), open)
	w.want(len(w.idle) <= w.most, "%d idle, at most %d are allowed", len(w.idle), w.most)
	w.want(len(w.idle) == 0 || !w.retired, "%d idle in a retired pool", len(w.idle))
	for c := 1; c <= w.conns; c++ {
		want := slices.Contains(w.leaving, c)
		w.want(p.Leaving(c) == want, "connection %d is leaving: %t, in the books %t", c, p.Leaving(c), want)
	}
	w.want(p.InFlight() == w.held()+len(w.behind), "in flight: %d, in the books %d", p.InFlight(), w.held()+len(w.behind))
	w.want(p.behind.count == len(w.behind), "behind: %d, in the books %d", p.behind.count, len(w.behind))
	for client, has := range w.has {
		w.want(int(p.holds[client]) == has, "client %d holds %d, in the books %d", client, p.holds[client], has)
	}
	w.want(w.empty() == (open+w.dialing+len(w.queue)+len(w.fresh)+len(w.behind) == 0), "empty: %t", w.empty())
	w.want(!w.lacking(), "somebody waits without a dial although there is room")
	w.want(len(w.idle) == 0 || len(w.queue) <= w.dialing, "somebody waits without a dial while a connection is idle")
	w.want(w.extra || p.Size()+p.Connecting() <= w.most, "%d connections, at most %d are allowed",
		p.Size()+p.Connecting(), w.most)
}

// empty reports whether the pool has no connections, dials or waiters.
func (w *world) empty() bool {
	return w.pool.Size()+w.pool.Connecting()+w.pool.Waiting() == 0
}

func (w *world) want(holds bool, format string, args ...any) {
	if !holds {
		w.t.Helper()
		w.t.Fatalf(format, args...)
	}
}
