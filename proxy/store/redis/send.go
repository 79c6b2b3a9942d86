package redis

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"weir/proxy/limit"
	"weir/proxy/store"
)

// A sender sends one batch and reads the replies. It is reused.
//
// Owned by the goroutine that sends.
type sender struct {
	c       *backend
	conn    rueidis.Client
	ctx     context.Context
	text    []byte // names and arguments of all counters
	ends    []int  // of the names in it
	asked   []asked
	calls   []call
	gives   int            // number of calls at the beginning without a bundle
	bundles []bundle       // of the other calls
	bySlot  map[uint16]int // index of the bundle of a slot that has room
}

// An asked is a group in the form for the scripts.
type asked struct {
	*store.Group
	names [store.CountersMax]string // empty if the counter is off
	args  [store.CountersMax]counterText
	took  [store.CountersMax]int // requests charged; in a Cluster it may exceed those granted
	parts []part
}

// A part has the indexes of the counters of a group that are in one slot.
type part struct {
	slot     uint16
	count    int
	counters [store.CountersMax]uint8
}

func (p *part) all() []uint8 { return p.counters[:p.count] }

// A bundle has the parts of groups of one call.
type bundle struct {
	groups []*asked
	parts  []*part
}

func (be *backend) Decide(ctx context.Context, b *store.Batch) {
	conn, err := be.connected()
	if err != nil {
		for _, g := range b.Groups {
			g.Err = be.failed("", err)
		}
		return
	}
	s, _ := be.senders.Get().(*sender)
	if s == nil {
		s = &sender{c: be, bySlot: make(map[uint16]int)}
	}
	s.conn, s.ctx = conn, ctx
	s.take(b)
	for i := range s.asked {
		a := &s.asked[i]
		a.Err = be.failed(a.first(), a.Err)
		a.Group = nil
	}
	be.senders.Put(s)
}

// describe formats the names and arguments of the groups' counters, and determines their
// slots. Without a Cluster there is one slot.
func (s *sender) describe(groups []*store.Group) {
	cluster := s.conn.Mode() == rueidis.ClientModeCluster
	s.text, s.ends, s.asked = s.text[:0], s.ends[:0], s.asked[:0]
	for _, g := range groups {
		for i := range g.Counters {
			if c := &g.Counters[i]; c.Limit.Algorithm() != limit.Off {
				s.text = appendName(s.text, s.c.cfg.KeyPrefix, c)
				s.ends = append(s.ends, len(s.text))
				s.text = appendArgs(s.text, c, g.N)
			}
		}
	}
	text, ends, from := string(s.text), s.ends, 0
	for _, g := range groups {
		a := s.next(g)
		for i := range g.Counters {
			if g.Counters[i].Limit.Algorithm() == limit.Off {
				a.names[i] = ""
				continue
			}
			a.names[i] = text[from:ends[0]]
			from = len(text) - len(a.args[i].cut(text[ends[0]:]))
			ends = ends[1:]
			var slot uint16
			if cluster {
				slot = slotOf(a.names[i])
			}
			a.place(i, slot)
		}
	}
}

// next returns an asked for a group, and reuses memory.
func (s *sender) next(g *store.Group) *asked {
	s.asked = slices.Grow(s.asked, 1)[:len(s.asked)+1]
	a := &s.asked[len(s.asked)-1]
	a.Group, a.parts = g, a.parts[:0]
	g.Err, g.Granted = nil, g.N
	return a
}

// place adds a counter to the part of its slot.
func (a *asked) place(i int, slot uint16) {
	p := 0
	for p < len(a.parts) && a.parts[p].slot != slot {
		p++
	}
	if p == len(a.parts) {
		a.parts = append(a.parts, part{slot: slot})
	}
	at := &a.parts[p]
	at.counters[at.count] = uint8(i)
	at.count++
}

// first returns the name of the first key of the group.
func (a *asked) first() string {
	for _, name := range a.names[:len(a.Counters)] {
		if name != "" {
			return name
		}
	}
	return ""
}

// take asks about all groups, slot by slot: each round asks about the next part of every
// group, for as many requests as the previous parts have granted. Few calls cover one slot.
// Without a Cluster there is one round.
func (s *sender) take(b *store.Batch) {
	s.describe(b.Groups)
	rounds := min(1, len(b.Refunds))
	for i := range s.asked {
		rounds = max(rounds, len(s.asked[i].parts))
	}
	now := time.Now()
	for round := range rounds {
		s.start()
		var kinds []limit.Kind
		if round == 0 { // before the asks, which may use the released places
			for i := range b.Refunds {
				s.release(&b.Refunds[i])
			}
			if kinds = s.c.noted.due(now, b.Groups); len(kinds) > 0 {
				s.calls = append(s.calls, s.c.noteKinds(kinds))
			}
			s.gives = len(s.calls)
		}
		for i := range s.asked {
			if a := &s.asked[i]; a.Err == nil && round < len(a.parts) {
				s.ask(a, &a.parts[round])
			}
		}
		replies := s.run()
		s.read(replies)
		if len(kinds) > 0 && replies[s.gives-1].Error() == nil {
			s.c.noted.note(now, kinds)
		}
	}
	if rounds > 1 {
		s.giveBack(rounds)
	}
}

// read reads the replies of a round: those without a bundle, then those of the bundles.
func (s *sender) read(replies []rueidis.RedisResult) {
	for i, reply := range replies {
		if i >= s.gives {
			s.bundles[i-s.gives].read(reply)
		} else if reply.Error() != nil {
			s.c.counts.errors.Inc()
		}
	}
}

func (s *sender) start() {
	s.calls, s.gives, s.bundles = s.calls[:0], 0, s.bundles[:0]
	clear(s.bySlot)
}

// release adds the call that carries out a refund.
func (s *sender) release(r *store.Refund) {
	c := &r.Counter
	s.calls = append(s.calls, call{
		script: s.c.scripts.give,
		keys:   []string{string(appendName(nil, s.c.cfg.KeyPrefix, c))},
		args:   releaseArgs(r),
	})
}

// ask adds a part of a group to the call for its slot, or begins another call if that is full.
// Calls are made in order, so that earlier asks are decided first.
func (s *sender) ask(a *asked, p *part) {
	at, known := s.bySlot[p.slot]
	if !known || len(s.calls[s.gives+at].keys)+p.count > scriptCountersMax {
		at = len(s.bundles)
		s.bySlot[p.slot] = at
		s.calls = append(s.calls, call{script: s.c.scripts.take})
		s.bundles = append(s.bundles, bundle{})
	}
	b, c := &s.bundles[at], &s.calls[s.gives+at]
	b.groups, b.parts = append(b.groups, a), append(b.parts, p)
	c.args = append(c.args, strconv.Itoa(p.count), strconv.Itoa(a.Granted))
	for _, i := range p.all() {
		c.keys = append(c.keys, a.names[i])
		c.args = append(c.args, a.args[i].all()...)
	}
}

// giveBack gives back what parts have charged beyond what the whole group was granted, from the
// last charge to the first: each is undone in the state that it left. It is sent once: if it
// fails, fewer requests are admitted, never more.
func (s *sender) giveBack(rounds int) {
	s.start()
	for p := rounds - 1; p >= 0; p-- {
		for i := range slices.Backward(s.asked) {
			a := &s.asked[i]
			if a.Err != nil || p >= len(a.parts) {
				continue
			}
			surplus := a.took[a.parts[p].counters[0]] - a.Granted
			if surplus <= 0 {
				continue
			}
			if c := s.give(a, &a.parts[p], int64(surplus)); len(c.keys) > 0 {
				s.calls = append(s.calls, c)
			}
		}
	}
	s.gives = len(s.calls)
	s.read(s.run())
}

// give returns the call that gives back what the last requests have charged to a part, except what is
// charged even if the group is refused.
func (s *sender) give(a *asked, p *part, requests int64) call {
	c := call{script: s.c.scripts.give, args: []string{strconv.FormatInt(a.At[p.counters[0]], 10)}}
	for _, i := range p.all() {
		counter := &a.Counters[i]
		if counter.Debt > 0 {
			continue
		}
		c.keys = append(c.keys, a.names[i])
		c.args = appendGive(c.args, counter.Limit, requests*counter.Cost, a.slot(int(i)))
	}
	return c
}

// slot returns the slot of the first request that a part has granted and the group has not. For
// token and gcra it returns when the key would be full without these requests, and for windows 0.
func (a *asked) slot(i int) int64 {
	c, at, state := &a.Counters[i], a.At[i], a.Before[i]
	switch c.Limit.Algorithm() {
	case limit.Leaky:
		c.Limit.Decide(at, &state, c.Charge(int64(a.Granted)))
		_, d := c.Limit.Decide(at, &state, c.Charge(1))
		return at + d.Delay.Microseconds()
	case limit.Token, limit.GCRA:
		c.Limit.Decide(at, &state, c.Charge(int64(a.Granted)))
		return c.Limit.FullAt(at, &state)
	}
	return 0
}

// run makes the calls of the round.
func (s *sender) run() []rueidis.RedisResult {
	if len(s.calls) == 0 {
		return nil
	}
	replies, reloads := runAll(s.conn.B(), s.calls, s.exchange)
	s.c.counts.reloads.Add(uint64(reloads))
	return replies
}

// exchange sends commands together and waits for the replies.
func (s *sender) exchange(commands []rueidis.Completed) []rueidis.RedisResult {
	began := time.Now()
	replies := s.conn.DoMulti(s.ctx, commands...)
	s.c.counts.exchanges.Observe(time.Since(began))
	s.c.counts.commands.Add(uint64(len(commands)))
	return replies
}

// read reads the reply to a bundle: the instant, then for each part how many requests were
// granted, and the states.
func (b *bundle) read(reply rueidis.RedisResult) {
	values, err := reply.ToArray()
	expected := 1
	for _, p := range b.parts {
		expected += 1 + p.count
	}
	if err == nil && len(values) != expected {
		err = errReply
	}
	var now int64
	if err == nil {
		now, err = values[0].AsInt64()
		values = values[1:]
	}
	for i, a := range b.groups {
		if a.Err = err; err != nil {
			continue
		}
		p := b.parts[i]
		a.Err = a.read(p, now, values[:1+p.count])
		values = values[1+p.count:]
	}
}

// read reads the decision about one part of a group.
func (a *asked) read(p *part, now int64, values []rueidis.RedisMessage) error {
	granted, err := values[0].AsInt64()
	switch {
	case err == nil && granted == -1:
		return errForeign
	case err != nil || granted < 0 || granted > int64(a.Granted):
		return errReply
	}
	for k, i := range p.all() {
		raw, err := values[1+k].ToString()
		if err != nil || !stateOf(raw, &a.Before[i]) {
			return errReply
		}
		a.At[i], a.took[i] = now, int(granted)
	}
	a.Granted = int(granted)
	return nil
}
