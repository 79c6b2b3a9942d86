package upstream

import (
	"iter"
	"math/rand/v2"
	"slices"
	"time"
)

// triesMax is how many targets one request may try; then there is none for it.
const triesMax = 8

// Tried is where a request has been. The zero value is for a new one.
type Tried struct {
	ids [triesMax]uint32
	n   int
}

// Count is how many targets were tried.
func (tr *Tried) Count() int { return tr.n }

func (tr *Tried) has(id uint32) bool { return slices.Contains(tr.ids[:tr.n], id) }

func (tr *Tried) add(id uint32) {
	tr.ids[tr.n] = id
	tr.n++
}

// Undo forgets the one chosen last: the request waits for a place anywhere.
func (tr *Tried) Undo() { tr.n-- }

// A Target is one target of a Group, with its health.
//
// Owned by its loop.
type Target[T any] struct {
	Health
	Value T

	id uint32 // never used again in its group
}

// A Group is the targets of one loop, and chooses among them. Targets come and
// go while requests are under way.
//
// A request goes to those that are up, or to one that is probed. When there is
// none of either it goes to the ejected ones: passive ejection never takes the
// last target away. Only active checks do.
//
// p2c is Mitzenmacher, "The Power of Two Choices in Randomized Load Balancing",
// 2001.
//
// Owned by its loop.
type Group[T any] struct {
	balance  Balance
	settings Ejection
	inFlight func(T) int
	room     func(T) bool // for one more request; nil: always
	chance   *rand.Rand

	targets []*Target[T]
	retired []*Target[T]
	turn    int // index of the one chosen last, for the ways that take turns
	ids     uint32
}

// NewGroup returns a Group without targets. inFlight tells how many requests a
// target has; what is drawn is drawn from chance.
func NewGroup[T any](b Balance, e Ejection, inFlight func(T) int, chance *rand.Rand) *Group[T] {
	return &Group[T]{balance: b, settings: e.orDefaults(), inFlight: inFlight, chance: chance, turn: -1}
}

// Bound has requests go to targets for which room says that there is a place for one
// more, as long as there are any.
func (g *Group[T]) Bound(room func(T) bool) { g.room = room }

// Add puts a target at the end of the list.
func (g *Group[T]) Add(v T) *Target[T] {
	g.ids++
	t := &Target[T]{Health: Health{settings: &g.settings, chance: g.chance}, Value: v, id: g.ids}
	g.targets = append(g.targets, t)
	return t
}

// Retire takes a target out of the list: it is chosen no more, and is kept with
// the retired ones until Forget.
func (g *Group[T]) Retire(t *Target[T]) {
	i := slices.Index(g.targets, t)
	if i < 0 {
		return
	}
	g.targets = slices.Delete(g.targets, i, i+1)
	if i <= g.turn {
		g.turn--
	}
	t.retired = true
	g.retired = append(g.retired, t)
}

// Forget drops a retired target: its pool is empty.
func (g *Group[T]) Forget(t *Target[T]) {
	if i := slices.Index(g.retired, t); i >= 0 {
		g.retired = slices.Delete(g.retired, i, i+1)
	}
}

// Targets are those in the list, in its order. Borrowed until it changes.
func (g *Group[T]) Targets() []*Target[T] { return g.targets }

// Retired are those that left the list and are not forgotten. Borrowed until
// one more is retired or forgotten.
func (g *Group[T]) Retired() []*Target[T] { return g.retired }

// Choose returns the target for a request that has tried some already, and
// notes that it tries this one. nil: there is none that it has not tried, or
// none at all (RetryAfter).
func (g *Group[T]) Choose(now time.Time, tried *Tried) *Target[T] {
	if tried.n == triesMax {
		return nil
	}
	t := g.choose(&ask[T]{now: now, tried: tried, room: g.room})
	if t == nil {
		return nil
	}
	tried.add(t.id)
	t.chosen(now)
	return t
}

// choose returns one with room, else one without, else one that is ejected, or nil.
func (g *Group[T]) choose(a *ask[T]) *Target[T] {
	t := g.pick(a)
	if t == nil && a.room != nil {
		a.room = nil
		t = g.pick(a)
	}
	if t == nil && !g.anyReady(a.now) {
		a.ejectedToo, a.room = true, g.room
		if t = g.pick(a); t == nil {
			a.room = nil
			t = g.pick(a)
		}
	}
	return t
}

// Takes reports whether a request may go to t, for one that waits for a place at any
// target: see Assign.
func (g *Group[T]) Takes(now time.Time, t *Target[T]) bool {
	return !t.retired && (t.ready(now) || t.usable() && !g.anyReady(now))
}

// Open yields the targets that requests may go to.
func (g *Group[T]) Open(now time.Time) iter.Seq[*Target[T]] {
	return func(yield func(*Target[T]) bool) {
		anyReady := g.anyReady(now)
		for _, t := range g.targets {
			if (t.ready(now) || !anyReady && t.usable()) && !yield(t) {
				return
			}
		}
	}
}

// Assign notes that a request, which was to go elsewhere or has failed to, tries t.
func (g *Group[T]) Assign(now time.Time, t *Target[T], tried *Tried) {
	if !tried.has(t.id) && tried.n < triesMax {
		tried.add(t.id)
	}
	t.chosen(now)
}

// RetryAfter is how long it takes at the least until a request may be sent
// somewhere: 0 when it may now, or when nobody knows because there is no target.
func (g *Group[T]) RetryAfter(now time.Time) time.Duration {
	var least time.Duration
	for i, t := range g.targets {
		if t.usable() {
			return 0
		}
		if d := max(0, t.recheck.Sub(now)); i == 0 || d < least {
			least = d
		}
	}
	return least
}

func (g *Group[T]) anyReady(now time.Time) bool {
	for _, t := range g.targets {
		if t.ready(now) {
			return true
		}
	}
	return false
}

// An ask is what one request wants of a target.
type ask[T any] struct {
	now        time.Time
	tried      *Tried
	ejectedToo bool
	room       func(T) bool // nil: without room will do
}

func (a *ask[T]) fits(t *Target[T]) bool {
	up := t.ready(a.now) || a.ejectedToo && t.usable()
	return up && !a.tried.has(t.id) && (a.room == nil || a.room(t.Value))
}

// pick returns one that fits, by the way to balance, or nil.
func (g *Group[T]) pick(a *ask[T]) *Target[T] {
	switch g.balance {
	case RoundRobin:
		return g.next(a)
	case LeastInFlight:
		return g.least(a)
	}
	one := g.draw(a, nil)
	if one == nil {
		return nil
	}
	if two := g.draw(a, one); two != nil && g.inFlight(two.Value) < g.inFlight(one.Value) {
		return two
	}
	return one
}

// next is the first that fits after the one chosen last.
func (g *Group[T]) next(a *ask[T]) *Target[T] {
	n := len(g.targets)
	for k := 1; k <= n; k++ {
		i := (g.turn + k) % n
		if t := g.targets[i]; a.fits(t) {
			g.turn = i
			return t
		}
	}
	return nil
}

// least is the one with the fewest in flight; among equals the first after the
// one chosen last, so that each has its turn.
func (g *Group[T]) least(a *ask[T]) *Target[T] {
	n := len(g.targets)
	best, fewest := -1, 0
	for k := 1; k <= n; k++ {
		i := (g.turn + k) % n
		t := g.targets[i]
		if !a.fits(t) {
			continue
		}
		if f := g.inFlight(t.Value); best < 0 || f < fewest {
			best, fewest = i, f
		}
	}
	if best < 0 {
		return nil
	}
	g.turn = best
	return g.targets[best]
}

// draws is how often draw tries its luck before it counts who there is.
const draws = 4

// draw returns any that fits but not; all are equally likely. It looks at all of
// them only when most do not fit.
func (g *Group[T]) draw(a *ask[T], not *Target[T]) *Target[T] {
	n := len(g.targets)
	if n == 0 {
		return nil
	}
	if n > 2 { // of two at most one is left: looking is cheaper
		for range draws {
			if t := g.targets[g.chance.IntN(n)]; t != not && a.fits(t) {
				return t
			}
		}
	}
	count := 0
	var drawn *Target[T]
	for _, t := range g.targets {
		if t == not || !a.fits(t) {
			continue
		}
		if count++; count == 1 || g.chance.IntN(count) == 0 { // each stays with 1 in count
			drawn = t
		}
	}
	return drawn
}
