package redis

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"weir/proxy/limit"
)

// errReply is the error of a reply that the script cannot have given.
var errReply = errors.New("the script's reply has another form")

// A sender sends one batch: what is on its way, and how it went.
//
// Owned by the helper that sends.
type sender struct {
	c       *Client
	conn    rueidis.Client
	ctx     context.Context
	groups  []*group // that are asked in this round
	calls   []call
	at      []int // what each call is about: an index of its caller
	replies []rueidis.RedisResult
	again   []rueidis.Completed
}

// send asks Redis for the batch's groups, and writes what comes back into them.
func (b *batch) send(c *Client) {
	b.sent = time.Now()
	if loaded := c.conn.Load(); loaded == nil {
		b.fail(errAway)
	} else {
		ctx, cancel := c.within()
		s := sender{c: c, conn: *loaded, ctx: ctx}
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
// group for as many requests as the parts before have granted. Outside of a
// Cluster there is one round.
func (s *sender) take(b *batch) {
	cluster := s.conn.Mode() == rueidis.ClientModeCluster
	rounds := 0
	for _, g := range b.groups {
		g.split(cluster)
		g.granted = g.n
		rounds = max(rounds, len(g.parts))
	}
	for round := range rounds {
		s.start()
		for _, g := range b.groups {
			if g.err == nil && round < len(g.parts) {
				s.groups = append(s.groups, g)
				s.add(s.c.scripts.take, g, &g.parts[round], strconv.Itoa(g.granted), -1)
			}
		}
		for i, reply := range s.run() {
			g := s.groups[i]
			g.err = g.read(&g.parts[round], reply)
		}
	}
	if rounds > 1 {
		s.giveBack(b)
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
				s.groups = append(s.groups, g)
				s.add(s.c.scripts.give, g, &g.parts[p], strconv.FormatInt(g.at[first], 10), surplus)
			}
		}
	}
	for _, reply := range s.run() {
		if reply.Error() != nil {
			s.c.counts.errors.Inc()
		}
	}
}

// start begins another round.
func (s *sender) start() {
	s.groups, s.calls = s.groups[:0], s.calls[:0]
}

// add puts a call for one part of a group together. With requests the last
// argument of each counter is what so many of them cost, else what one does.
func (s *sender) add(script *script, g *group, p *part, first string, requests int) {
	c := call{script: script, keys: make([]string, 0, p.count), args: make([]string, 1, 1+counterArgs*p.count)}
	c.args[0] = first
	for _, i := range p.all() {
		c.keys = append(c.keys, g.names[i])
		c.args = append(c.args, g.args[i][:]...)
		if requests >= 0 {
			c.args[len(c.args)-1] = strconv.FormatInt(int64(requests)*g.counters[i].Cost, 10)
		}
	}
	s.calls = append(s.calls, c)
}

// run makes the calls, those for which the server does not know the script once
// more in full: they have not run. Nothing else is ever sent twice.
func (s *sender) run() []rueidis.RedisResult {
	if len(s.calls) == 0 {
		return nil
	}
	commands := make([]rueidis.Completed, 0, len(s.calls))
	for i := range s.calls {
		commands = append(commands, s.calls[i].command(s.conn.B(), false))
	}
	s.replies = s.exchange(commands)
	s.at, s.again = s.at[:0], s.again[:0]
	for i, reply := range s.replies {
		if faultOf(reply.Error()) == faultScript {
			s.at = append(s.at, i)
			s.again = append(s.again, s.calls[i].command(s.conn.B(), true))
		}
	}
	if len(s.again) > 0 {
		s.c.counts.reloads.Add(uint64(len(s.again)))
		for i, reply := range s.exchange(s.again) {
			s.replies[s.at[i]] = reply
		}
	}
	return s.replies
}

// exchange sends commands together and waits for the replies.
func (s *sender) exchange(commands []rueidis.Completed) []rueidis.RedisResult {
	began := time.Now()
	replies := s.conn.DoMulti(s.ctx, commands...)
	s.c.counts.exchanges.Observe(time.Since(began))
	s.c.counts.commands.Add(uint64(len(commands)))
	return replies
}

// read takes in the reply about one part of a group.
func (g *group) read(p *part, reply rueidis.RedisResult) error {
	values, err := reply.ToArray()
	if err != nil {
		return err
	}
	if len(values) != 2+p.count {
		return errReply
	}
	granted, err := values[0].AsInt64()
	now, errNow := values[1].AsInt64()
	if err != nil || errNow != nil || granted < 0 || granted > int64(g.granted) {
		return errReply
	}
	for k, i := range p.all() {
		raw, err := values[2+k].ToString()
		var state limit.State
		if err != nil || !stateOf(raw, &state) {
			return errReply
		}
		g.states[i], g.at[i], g.took[i] = state, now, int(granted)
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
		f := faultOf(g.err)
		if f == faultItem || f == faultScript {
			c.undecidable(b.landed, g.name(), g.err)
		}
		if f > worst {
			worst, about = f, g
		}
	}
	switch worst {
	case faultDeadline:
		c.late(b.landed, b.sent, about.names[0])
	case faultAway:
		c.failed(b.landed, b.sent, about.names[0], fmt.Errorf("decide: %w", about.err))
	default:
		c.breaker.answered()
	}
}
