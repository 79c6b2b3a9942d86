package upstream

import (
	"math/rand/v2"
	"slices"
	"testing"
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
	dialing       int            // connects under way
	line, fresh   []*Waiter[int] // who waits, in the order of arrival
	fates         []fate         // by the waiter's Value
	conns         int            // ever opened
	extra         bool           // somebody asked for a fresh connection
}

func newWorld(t *testing.T, r *rand.Rand, most, waitMax int) *world {
	return &world{t: t, r: r, pool: NewPool[int, int](most, most, waitMax), most: most, waitMax: waitMax}
}

// acquire has a new waiter ask for a connection.
func (w *world) acquire(fresh bool) {
	w.extra = w.extra || fresh
	waiter := &Waiter[int]{Value: len(w.fates)}
	lacking := w.lacking(1, fresh)
	c, grant := w.pool.Acquire(waiter, fresh)
	switch {
	case len(w.idle) > 0 && !fresh:
		last := len(w.idle) - 1
		w.want(grant == Ready && c == w.idle[last], "acquire gives the idle connection used last, %d: got %d, grant %d", w.idle[last], c, grant)
		w.idle, w.busy = w.idle[:last], append(w.busy, c)
		w.fates = append(w.fates, served)
	case len(w.line)+len(w.fresh) == w.waitMax:
		w.want(grant == Full, "no place in the line: grant %d", grant)
		w.fates = append(w.fates, refused)
	default:
		w.want(grant == Wait || grant == WaitAndDial, "a place in the line: grant %d", grant)
		if fresh {
			w.fresh = append(w.fresh, waiter)
		} else {
			w.line = append(w.line, waiter)
		}
		w.fates = append(w.fates, waits)
		w.dial(grant == WaitAndDial, lacking)
	}
	w.want(waiter.Waiting() == (w.fates[waiter.Value] == waits), "a waiter that %s: Waiting says %t", w.fates[waiter.Value], waiter.Waiting())
}

// lacking reports whether, with so many more waiters, one of them has no dial
// under way for it although there is room, or although it must have one.
func (w *world) lacking(more int, fresh bool) bool {
	mustHave := len(w.fresh)
	if fresh {
		mustHave += more
	}
	waiting := len(w.line) + len(w.fresh) + more
	room := len(w.idle)+len(w.busy)+len(w.leaving)+w.dialing < w.most
	return w.dialing < mustHave || w.dialing < waiting && room
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
	next := w.pool.Release(c)
	if len(w.line) > 0 && !beyond {
		w.first(next, &w.line, served)
		return
	}
	w.want(next == nil, "connection %d went to a waiter: beyond the bound %t, and nobody waits for one that has served before", c, beyond)
	w.busy = slices.Delete(w.busy, i, i+1)
	w.rest(c, beyond)
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
	switch {
	case len(w.fresh) > 0:
		w.first(next, &w.fresh, served)
	case len(w.line) > 0:
		w.first(next, &w.line, served)
	default:
		w.want(next == nil, "nobody waits for a new connection")
		w.rest(w.conns, len(w.idle)+len(w.busy) >= w.most)
		return
	}
	w.busy = append(w.busy, w.conns)
}

// dialFailed ends a dial badly.
func (w *world) dialFailed() {
	w.dialing--
	next, again := w.pool.DialFailed()
	switch {
	case len(w.fresh) > 0:
		w.first(next, &w.fresh, failed)
	case len(w.line) > 0:
		w.first(next, &w.line, failed)
	default:
		w.want(next == nil, "nobody is to be told of a failed dial")
	}
	w.dial(again, w.lacking(0, false))
}

// first checks that next is the first of the line, which it leaves.
func (w *world) first(next *Waiter[int], line *[]*Waiter[int], became fate) {
	want := (*line)[0]
	if next != want {
		w.t.Fatalf("first in, first out: want waiter %d, got %+v", want.Value, next)
	}
	w.want(!next.Waiting(), "waiter %d still stands in line", next.Value)
	w.end(next, became)
	*line = (*line)[1:]
}

// end notes what became of a waiter; it becomes something only once.
func (w *world) end(waiter *Waiter[int], became fate) {
	w.want(w.fates[waiter.Value] == waits, "waiter %d was %s before it was %s", waiter.Value, w.fates[waiter.Value], became)
	w.fates[waiter.Value] = became
}

// lost has a connection of the list end.
func (w *world) lost(list *[]int, i int) {
	c := (*list)[i]
	*list = slices.Delete(*list, i, i+1)
	lacking := w.lacking(0, false)
	w.dial(w.pool.Lost(c), lacking)
}

// cancel takes a waiter out of its line; twice is as good as once.
func (w *world) cancel(line *[]*Waiter[int], i int) {
	waiter := (*line)[i]
	*line = slices.Delete(*line, i, i+1)
	w.pool.Cancel(waiter)
	w.pool.Cancel(waiter)
	w.want(!waiter.Waiting(), "waiter %d was cancelled and waits", waiter.Value)
	w.end(waiter, cancelled)
}

// check compares the pool's numbers with the books, and looks at the laws that
// hold between any two steps.
func (w *world) check() {
	p := w.pool
	w.want(p.Idle() == len(w.idle), "idle: %d, in the books %d", p.Idle(), len(w.idle))
	w.want(p.Busy() == len(w.busy), "busy: %d, in the books %d", p.Busy(), len(w.busy))
	w.want(p.Connecting() == w.dialing, "connecting: %d, in the books %d", p.Connecting(), w.dialing)
	open := len(w.idle) + len(w.busy) + len(w.leaving)
	w.want(p.Open() == open, "open: %d, in the books %d", p.Open(), open)
	w.want(len(w.idle) <= w.most, "%d idle, at most %d are allowed", len(w.idle), w.most)
	w.want(len(w.idle) == 0 || !w.retired, "%d idle in a retired pool", len(w.idle))
	for c := 1; c <= w.conns; c++ {
		want := slices.Contains(w.leaving, c)
		w.want(p.Leaving(c) == want, "connection %d is leaving: %t, in the books %t", c, p.Leaving(c), want)
	}
	inFlight := len(w.busy) + len(w.line) + len(w.fresh)
	w.want(p.InFlight() == inFlight, "in flight: %d, in the books %d", p.InFlight(), inFlight)
	w.want(w.empty() == (open+w.dialing+len(w.line)+len(w.fresh) == 0), "empty: %t", w.empty())
	w.want(!w.lacking(0, false), "somebody waits without a dial although there is room")
	w.want(len(w.idle) == 0 || len(w.line) == 0, "somebody waits while a connection is idle")
	w.want(w.extra || p.Open()+p.Connecting() <= w.most, "%d connections, at most %d are allowed", p.Open()+p.Connecting(), w.most)
}

// empty reports whether the pool has no connections, dials or waiters.
func (w *world) empty() bool { return w.pool.Open()+w.pool.Connecting()+w.pool.Waiting() == 0 }

func (w *world) want(holds bool, format string, args ...any) {
	if !holds {
		w.t.Helper()
		w.t.Fatalf(format, args...)
	}
}
