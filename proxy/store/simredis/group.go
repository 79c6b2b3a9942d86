package simredis

import (
	"bytes"
	"hash/maphash"

	"weir/proxy/limit"
	"weir/proxy/store"
)

// A claim is one counter of an ask while the ask is decided.
type claim struct {
	from, to int // range of the name in the group's names
	hash     uint64
	stripe   *stripe
	record   record // nil: the stripe does not have the name
	slot     uint32 // of record
	state    limit.State
	before   [limit.StateBytes]byte // bytes of state before the decision
	placed   bool                   // counted in the table's keys
}

// A group is an ask that is being decided, with the locks of its stripes. It is on the stack, so
// it has arrays instead of slices.
//
// Owned by the call that made it.
type group struct {
	t        *Table
	now      int64
	n        int // number of claims
	claims   [store.CountersMax]claim
	names    [store.CountersMax * store.KeyBytesMax]byte
	locked   int // number of locked stripes
	numbers  [store.CountersMax]uint32
	overflow bool // the overflow buckets are locked too
}

// takeGroup decides an ask with any number of counters, known or new.
func (t *Table) takeGroup(now int64, ask *store.Ask, ans *store.Answer) {
	g := group{t: t, now: now}
	for i := range ask.Counters {
		g.add(ask.Counters[:i+1])
	}
	if g.locked == 0 {
		ans.At = 0
	}
	g.lock()
	for i := range ask.Counters {
		if g.claims[i].stripe != nil {
			g.resolve(&g.claims[i], &ask.Counters[i])
		}
	}
	g.decide(ask, ans)
	g.unlock()
}

// add makes a claim for the last of counters, and adds its stripe. For a counter without a limit
// the claim is empty.
func (g *group) add(counters []store.Counter) {
	counter := &counters[g.n]
	for i := range g.n {
		if counters[i].Rule == counter.Rule && bytes.Equal(counters[i].Key, counter.Key) {
			panic("bug: simredis: two counters of one ask have the same key of rule " + counter.Rule)
		}
	}
	c := &g.claims[g.n]
	if g.n > 0 {
		c.from = g.claims[g.n-1].to
	}
	g.n++
	if counter.Limit.Algorithm() == limit.Off {
		c.to = c.from
		return
	}
	c.to = c.from + len(store.AppendKey(g.names[c.from:c.from], counter.Rule, counter.Key))
	c.hash = maphash.Bytes(g.t.seed, g.name(c))
	number := uint32(c.hash >> g.t.shift)
	c.stripe = &g.t.stripes[number]
	g.note(number)
}

func (g *group) name(c *claim) []byte { return g.names[c.from:c.to] }

// note adds a stripe to those to lock, in ascending order, unless it is already there.
func (g *group) note(number uint32) {
	at := g.locked
	for at > 0 && g.numbers[at-1] >= number {
		at--
	}
	if at < g.locked && g.numbers[at] == number {
		return
	}
	copy(g.numbers[at+1:], g.numbers[at:g.locked])
	g.numbers[at] = number
	g.locked++
}

func (g *group) lock() {
	for _, number := range g.numbers[:g.locked] {
		g.t.stripes[number].mu.Lock()
	}
}

func (g *group) unlock() {
	if g.overflow {
		g.t.overflow.mu.Unlock()
	}
	for _, number := range g.numbers[:g.locked] {
		g.t.stripes[number].mu.Unlock()
	}
}

// resolve finds the state of a claim: that of its key, or for a new key the zero state, the
// state of the rule's overflow bucket at the bound, or a copy of that state if the bucket is
// not as new.
func (g *group) resolve(c *claim, counter *store.Counter) {
	kind := counter.Limit.Kind()
	c.find(g.now, g.name(c), kind)
	if c.record != nil {
		return
	}
	c.placed = g.t.keys.Add(1) <= g.t.keysMax
	if !c.placed {
		g.t.keys.Add(-1)
		g.t.overflowed.Add(1)
	} else if g.t.buckets.Load() == 0 {
		return
	}
	if !g.overflow {
		g.overflow = true
		g.t.overflow.mu.Lock()
	}
	var space [store.KeyBytesMax]byte
	name := append(store.AppendRule(space[:0], counter.Rule), '*')
	bucket := claim{stripe: &g.t.overflow, hash: maphash.Bytes(g.t.seed, name)}
	bucket.find(g.now, name, kind)
	if c.placed {
		c.state = bucket.state.Clone()
		c.before = bucket.before
		return
	}
	bucket.from = c.from
	bucket.to = c.from + copy(g.names[c.from:c.to], name) // shorter than the name of any key
	*c = bucket
}

// find looks up a name. An expired key is like a new one, but has a record.
func (c *claim) find(now int64, name []byte, kind limit.Kind) {
	c.record, c.slot = c.stripe.find(c.hash, name, kind)
	if c.record != nil && now < c.record.expires() {
		c.before = *c.record.bytes()
		c.state = c.stripe.state(c.record, c.slot)
	}
}

// decide grants as many of the ask's requests as every counter admits, and charges them.
func (g *group) decide(ask *store.Ask, ans *store.Answer) {
	n := int64(ask.N)
	granted := n
	for i := range ask.Counters {
		counter := &ask.Counters[i]
		granted = min(granted, counter.Limit.RoomFor(g.now, &g.claims[i].state, g.ask(ask.Counters, i, n)))
	}
	for i := range ask.Counters {
		counter, c := &ask.Counters[i], &g.claims[i]
		if c.stripe == &g.t.overflow { // an earlier counter may have changed the bucket
			c.find(g.now, g.name(c), counter.Limit.Kind())
		}
		if ask.WantsPrior {
			trace := store.PriorState{Before: c.state.Clone()}
			if c.stripe != nil { // else there is no limit
				trace.At = g.now
			}
			ans.Prior = append(ans.Prior, trace)
		}
		d := counter.Decide(g.now, &c.state, n, granted)
		if granted < n && c.stripe == &g.t.overflow && counter.Debt == 0 {
			d = counter.Limit.Preview(g.now, &c.state, g.ask(ask.Counters, i, 1))
		}
		ans.Decisions = append(ans.Decisions, d)
		g.keep(c, d)
	}
	ans.Granted = int(granted)
	ans.Tightest = store.Tightest(ask.Counters, ans.Decisions)
}

// ask returns what the state of a claim must admit: the cost of the counter, and of the others
// whose keys share its overflow bucket.
func (g *group) ask(counters []store.Counter, i int, n int64) limit.Charge {
	charge, c := counters[i].Charge(n), &g.claims[i]
	if c.stripe != &g.t.overflow {
		return charge
	}
	for j := range counters {
		if j != i && g.claims[j].stripe == c.stripe && bytes.Equal(g.name(&g.claims[j]), g.name(c)) {
			charge.Cost += counters[j].Cost
		}
	}
	return charge
}

// keep writes the state of a claim to the table if it has changed.
func (g *group) keep(c *claim, d limit.Decision) {
	if c.state.EqualBytes(&c.before) {
		if c.placed {
			g.t.keys.Add(-1)
		}
		return
	}
	if c.record == nil {
		c.record, c.slot = c.stripe.insert(c.hash, g.name(c))
		if !c.placed {
			g.t.buckets.Add(1)
		}
	}
	c.stripe.set(c.record, c.slot, &c.state, g.now+d.TTL().Microseconds())
}
