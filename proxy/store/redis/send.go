package redis

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"weir/proxy/limit"
)

// A sender sends one batch: what is on its way, and how it went.
//
// Owned by the helper that sends.
type sender struct {
	c       *Client
	conn    rueidis.Client
	ctx     context.Context
	calls   []call
	gives   int            // the first of calls, of which nobody wants to know what came
	bundles []bundle       // what each of the others is about
	bySlot  map[uint16]int // the bundle of a slot that is filled
}

// A bundle is the parts of groups that one call is about.
type bundle struct {
	groups []*group
	parts  []*part
}

// send asks Redis for the batch's groups, and writes what comes back into them.
func (b *batch) send(c *Client) {
	b.sent = time.Now()
	if loaded := c.conn.Load(); loaded == nil {
		b.fail(errAway)
	} else {
		ctx, cancel := c.within()
		s := sender{c: c, conn: *loaded, ctx: ctx, bySlot: make(map[uint16]int)}
		s.take(b)
		cancel()
	}
	b.landed = time.Now()
	b.judge(c)
}

func (b *batch) fail(err error) {
	for _, g := range b.groups {
		g.err = err
	}
}

// take asks for all groups, slot by slot: each round asks the next part of every
// group for as many requests as the parts before have granted. What is in one slot
// is asked by few calls. Outside of a Cluster that is everything, in one round.
func (s *sender) take(b *batch) {
	cluster := s.conn.Mode() == rueidis.ClientModeCluster
	rounds := 0
	for _, g := range b.groups {
		g.split(cluster)
		g.granted = g.n
		rounds = max(rounds, len(g.parts))
	}
	if len(b.gives) > 0 {
		rounds = max(rounds, 1)
	}
	for round := range rounds {
		s.start()
		if round == 0 { // before what is asked, which may go in their place
			s.calls = append(s.calls, b.gives...)
			if len(b.kinds) > 0 {
				s.calls = append(s.calls, s.kinds(b.kinds))
			}
			s.gives = len(s.calls)
		}
		for _, g := range b.groups {
			if g.err == nil && round < len(g.parts) {
				s.ask(g, &g.parts[round])
			}
		}
		replies := s.run()
		s.read(replies)
		if round == 0 && len(b.kinds) > 0 && replies[s.gives-1].Error() == nil {
			b.kinds = b.kinds[:0]
		}
	}
	if rounds > 1 {
		s.giveBack(b)
	}
}

// read takes in the replies of a round: of what is given back, then of the bundles.
func (s *sender) read(replies []rueidis.RedisResult) {
	for i, reply := range replies {
		if i >= s.gives {
			s.bundles[i-s.gives].read(reply)
		} else if reply.Error() != nil {
			s.c.counts.errors.Inc()
		}
	}
}

// start begins another round.
func (s *sender) start() {
	s.calls, s.gives, s.bundles = s.calls[:0], 0, s.bundles[:0]
	clear(s.bySlot)
}

// ask adds a part of a group to the call for its slot, or begins another when that is
// full. Calls are made in order, so that who came first is served first.
func (s *sender) ask(g *group, p *part) {
	at, known := s.bySlot[p.slot]
	if !known || len(s.calls[s.gives+at].keys)+p.count > scriptCountersMax {
		at = len(s.bundles)
		s.bySlot[p.slot] = at
		s.calls = append(s.calls, call{script: s.c.scripts.take})
		s.bundles = append(s.bundles, bundle{})
	}
	b, c := &s.bundles[at], &s.calls[s.gives+at]
	b.groups, b.parts = append(b.groups, g), append(b.parts, p)
	c.args = append(c.args, strconv.Itoa(p.count), strconv.Itoa(g.granted))
	for _, i := range p.all() {
		c.keys = append(c.keys, g.names[i])
		c.args = append(c.args, g.args[i].all()...)
	}
}

// giveBack returns what parts charged beyond what the whole group was granted. It
// is asked once, whatever comes of it: without, fewer are admitted, never more.
func (s *sender) giveBack(b *batch) {
	s.start()
	for _, g := range b.groups {
		for p := range g.parts {
			first := g.parts[p].counters[0]
			if surplus := g.took[first] - g.granted; g.err == nil && surplus > 0 {
				s.calls = append(s.calls, s.give(g, &g.parts[p], int64(surplus)))
			}
		}
	}
	s.gives = len(s.calls)
	s.read(s.run())
}

// give is the call which gives back what so many requests, the last ones, have
// charged to a part.
func (s *sender) give(g *group, p *part, requests int64) call {
	c := call{script: s.c.scripts.give, args: []string{strconv.FormatInt(g.at[p.counters[0]], 10)}}
	for _, i := range p.all() {
		counter := &g.counters[i]
		c.keys = append(c.keys, g.names[i])
		c.args = appendGive(c.args, counter.Limit, requests*counter.Cost, g.slot(int(i)))
	}
	return c
}

// slot is when the first request was to leave that a part had granted and the group
// has not, as the script knows it; 0 where nothing is queued.
func (g *group) slot(i int) int64 {
	c := &g.counters[i]
	if c.Limit.Algorithm() != limit.Leaky {
		return 0
	}
	state := g.states[i]
	c.Limit.Decide(g.at[i], &state, c.Ask(int64(g.granted)))
	_, d := c.Limit.Decide(g.at[i], &state, c.Ask(1))
	return g.at[i] + d.Delay.Microseconds()
}

// run makes the calls, those for which the server does not know the script once
// more in full: they have not run. Nothing else is ever sent twice.
func (s *sender) run() []rueidis.RedisResult {
	if len(s.calls) == 0 {
		return nil
	}
	commands := make([]rueidis.Completed, len(s.calls))
	for i := range s.calls {
		commands[i] = s.calls[i].command(s.conn.B(), false)
	}
	replies := s.exchange(commands)
	var again []rueidis.Completed
	var at []int
	for i, reply := range replies {
		if faultOf(reply.Error()) == faultScript {
			at = append(at, i)
			again = append(again, s.calls[i].command(s.conn.B(), true))
		}
	}
	if len(again) > 0 {
		s.c.counts.reloads.Add(uint64(len(again)))
		for i, reply := range s.exchange(again) {
			replies[at[i]] = reply
		}
	}
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

// read takes in the reply about a bundle: the instant, then for each part how many
// were granted and the states.
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
	for i, g := range b.groups {
		if g.err = err; err != nil {
			continue
		}
		p := b.parts[i]
		g.err = g.read(p, now, values[:1+p.count])
		values = values[1+p.count:]
	}
}

// read takes in what was decided about one part of a group.
func (g *group) read(p *part, now int64, values []rueidis.RedisMessage) error {
	granted, err := values[0].AsInt64()
	switch {
	case err == nil && granted == -1:
		return errForeign
	case err != nil || granted < 0 || granted > int64(g.granted):
		return errReply
	}
	for k, i := range p.all() {
		raw, err := values[1+k].ToString()
		if err != nil || !stateOf(raw, &g.states[i]) {
			return errReply
		}
		g.at[i], g.took[i] = now, int(granted)
	}
	g.granted = int(granted)
	return nil
}

// judge tells the breaker how the batch went, counts and logs.
func (b *batch) judge(c *Client) {
	worst, about := faultNone, (*group)(nil)
	for _, g := range b.groups {
		if g.err == nil {
			continue
		}
		c.counts.errors.Inc()
		f := c.faultOf(g.err)
		if f == faultItem || f == faultScript {
			c.undecidable(b.landed, g.about(), g.err)
		}
		if f > worst {
			worst, about = f, g
		}
	}
	switch worst {
	case faultDeadline:
		c.late(b.landed, b.sent, about.first())
	case faultAway:
		c.failed(b.landed, b.sent, about.first(), fmt.Errorf("decide: %w", about.err))
	default:
		if len(b.groups) > 0 {
			c.breaker.answered()
		}
	}
}
