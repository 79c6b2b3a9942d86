package upstream

import (
	"cmp"
	"iter"
	"math/rand/v2"
	"slices"
	"time"
)

// A Balance is a way to distribute requests over several targets.
type Balance uint8

const (
	P2C           Balance = iota // of two drawn at random, the one with fewer in flight
	RoundRobin                   // each in turn
	LeastInFlight                // the one with the fewest in flight
)

// String returns the word of the settings.
func (b Balance) String() string {
	return [...]string{"p2c", "round_robin", "least_inflight"}[b]
}

// triesMax bounds how many targets one request may try.
const triesMax = 8

// TriedTargets records the targets that a request has tried. The zero value is for a new
// request.
type TriedTargets struct {
	ids [triesMax]uint32
	n   int
}

// Count returns how many targets were tried.
func (tr *TriedTargets) Count() int { return tr.n }

func (tr *TriedTargets) has(id uint32) bool { return slices.Contains(tr.ids[:tr.n], id) }

func (tr *TriedTargets) add(id uint32) {
	tr.ids[tr.n] = id
	tr.n++
}

// Undo removes the target chosen last, because the request waits for a place at any
// target.
func (tr *TriedTargets) Undo() { tr.n-- }

// A Target is one target of a Balancer, with its health.
//
// Owned by its loop.
type Target[T any] struct {
	Health
	Value T

	id uint32 // unique in its group
}

// A Balancer is the targets of one loop, and chooses among them. Targets come and
// go while requests are under way.
//
// Requests go to targets that are up, or to one that is probed. If there is none of
// either, they go to ejected targets: passive ejection never removes the last target.
// Only active checks do.
//
// p2c is Mitzenmacher, "The Power of Two Choices in Randomized Load Balancing",
// 2001.
//
// Owned by its loop.
type Balancer[T any] struct {
	balance  Balance
	probeMax time.Duration // see NewBalancer
	inFlight func(T) int
	room     func(T) bool // for one more request; nil: always
	chance   *rand.Rand

	targets []*Target[T]
	turn    int // index of the target chosen last
	ids     uint32
}

// NewBalancer returns a Balancer without targets. A probe of an ejected target that has no outcome
// expires after probeMax; 0: 10 s. inFlight returns how many requests a target has; chance is
// the source of randomness.
func NewBalancer[T any](b Balance, probeMax time.Duration, inFlight func(T) int, chance *rand.Rand) *Balancer[T] {
	return &Balancer[T]{balance: b, probeMax: cmp.Or(probeMax, 10*time.Second), inFlight: inFlight, chance: chance,
		turn: -1}
}

// Bound makes requests prefer targets for which room reports a place for one more.
func (g *Balancer[T]) Bound(room func(T) bool) { g.room = room }

// Add appends a target to the list.
func (g *Balancer[T]) Add(v T) *Target[T] {
	g.ids++
	t := &Target[T]{Health: Health{probeMax: g.probeMax, chance: g.chance}, Value: v, id: g.ids}
	g.targets = append(g.targets, t)
	return t
}

// Retire removes a target from the list, so it is no longer chosen. Its requests in flight
// finish.
func (g *Balancer[T]) Retire(t *Target[T]) {
	i := slices.Index(g.targets, t)
	if i < 0 {
		return
	}
	g.targets = slices.Delete(g.targets, i, i+1)
	if i <= g.turn {
		g.turn--
	}
	t.retired = true
}

// Targets returns the targets in the list, in order. The slice is valid until the list
// changes.
func (g *Balancer[T]) Targets() []*Target[T] { return g.targets }

// Choose returns the target for a request that may have tried others, and records that it
// tries this one. It returns nil if there is no target that the request has not tried;
// see RetryAfter.
func (g *Balancer[T]) Choose(now time.Time, tried *TriedTargets) *Target[T] {
	if tried.n == triesMax {
		return nil
	}
	var t *Target[T]
	if len(g.targets) == 1 { // there is nothing to balance: it is chosen also without room, and while it is ejected
		if t = g.targets[0]; !t.usable() || tried.has(t.id) {
			return nil
		}
	} else if t = g.choose(&ask[T]{now: now, tried: tried, room: g.room}); t == nil {
		return nil
	}
	tried.add(t.id)
	t.chosen(now)
	return t
}

// choose returns a target with room, or else one without, or else an ejected one, or nil.
func (g *Balancer[T]) choose(a *ask[T]) *Target[T] {
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

// Accepts reports whether t accepts a request that waits for a place at any target; see
// Assign.
func (g *Balancer[T]) Accepts(now time.Time, t *Target[T]) bool {
	return !t.retired && (t.ready(now) || t.usable() && !g.anyReady(now))
}

// Available yields the targets that accept requests.
func (g *Balancer[T]) Available(now time.Time) iter.Seq[*Target[T]] {
	return func(yield func(*Target[T]) bool) {
		anyReady := g.anyReady(now)
		for _, t := range g.targets {
			if (t.ready(now) || !anyReady && t.usable()) && !yield(t) {
				return
			}
		}
	}
}

// Assign records that a request that was meant for another target, or failed there, tries
// t.
func (g *Balancer[T]) Assign(now time.Time, t *Target[T], tried *TriedTargets) {
	if !tried.has(t.id) && tried.n < triesMax {
		tried.add(t.id)
	}
	t.chosen(now)
}

// RetryAfter returns the least time until a request may be sent to a target. It is 0 if
// it may be sent now, or if there is no target.
func (g *Balancer[T]) RetryAfter(now time.Time) time.Duration {
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

func (g *Balancer[T]) anyReady(now time.Time) bool {
	return slices.ContainsFunc(g.targets, func(t *Target[T]) bool { return t.ready(now) })
}

// An ask describes what one request needs from a target.
type ask[T any] struct {
	now        time.Time
	tried      *TriedTargets
	ejectedToo bool
	room       func(T) bool // nil: room is not required
}

func (a *ask[T]) fits(t *Target[T]) bool {
	up := t.ready(a.now) || a.ejectedToo && t.usable()
	return up && !a.tried.has(t.id) && (a.room == nil || a.room(t.Value))
}

// pick returns a suitable target according to the balance, or nil.
func (g *Balancer[T]) pick(a *ask[T]) *Target[T] {
	if g.balance != P2C {
		return g.inTurn(a, g.balance == LeastInFlight)
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

// inTurn returns the first suitable target after the one chosen last or, of the suitable
// ones, the one with the fewest in flight; among equals each gets its turn.
func (g *Balancer[T]) inTurn(a *ask[T], fewest bool) *Target[T] {
	n := len(g.targets)
	best, least := -1, 0
	for k := 1; k <= n && (best < 0 || fewest); k++ {
		i := (g.turn + k) % n
		t := g.targets[i]
		if !a.fits(t) {
			continue
		}
		if f := g.inFlight(t.Value); best < 0 || f < least {
			best, least = i, f
		}
	}
	if best < 0 {
		return nil
	}
	g.turn = best
	return g.targets[best]
}

// draws bounds the random attempts of draw before it looks at all targets.
const draws = 4

// draw returns a random suitable target other than not; all are equally likely. It looks
// at all of them only if most are unsuitable.
func (g *Balancer[T]) draw(a *ask[T], not *Target[T]) *Target[T] {
	if n := len(g.targets); n > 2 { // with two, at most one is left: looking is cheaper
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
		if count++; count == 1 || g.chance.IntN(count) == 0 { // each is kept with probability 1/count
			drawn = t
		}
	}
	return drawn
}
