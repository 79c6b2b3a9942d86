package redis

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"weir/proxy/store"
)

// The prober's pauses between two attempts.
const (
	probePauseMin = 50 * time.Millisecond
	probePauseMax = 500 * time.Millisecond
)

// probeName is what the prober writes.
const probeName = namespace + "probe"

// A Client is one program's access to Redis: it connects, notices when Redis goes
// and comes, and keeps what the lanes share.
//
// Safe for concurrent use: what changes is atomic, or guarded by mu or docMu.
type Client struct {
	cfg     Config
	scripts scripts
	counts  counts
	breaker breaker
	began   time.Time     // of the clock of mode Local
	epoch   atomic.Uint64 // of what lanes remember of refusals
	conn    atomic.Pointer[rueidis.Client]
	grumble grumble
	atStart error // see Misconfigured

	complaint grumble // about the configuration

	mu       sync.Mutex
	lanes    []*Lane
	refusal  string // the last that was said of why Redis does not decide
	suspect  string // the name about which the last error was; in a Cluster only its node may be away
	watched  []*watched
	poll     chan struct{} // asks the watcher to look at documents at once
	lost     chan struct{} // wakes the prober
	stop     context.CancelFunc
	stopping context.Context
	running  sync.WaitGroup

	docMu   sync.Mutex
	docConn rueidis.Client // see documents; nil until it is needed
}

// New connects to Redis and returns a client, also when Redis is away: then it
// starts in the failure mode and goes on trying. The error is about the
// configuration, see Config.Validate.
func New(cfg Config) (*Client, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("use redis: %w", err)
	}
	return open(cfg.withDefaults(), newScripts()), nil
}

func open(cfg Config, s scripts) *Client {
	c := &Client{cfg: cfg, scripts: s, counts: newCounts(), began: time.Now(),
		poll: make(chan struct{}, 1), lost: make(chan struct{}, 1)}
	c.stopping, c.stop = context.WithCancel(context.Background())
	now := time.Now()
	if err := c.tryNow(); err != nil {
		c.atStart = misconfigured(err)
		c.failed(now, now, "", err)
	}
	c.running.Go(c.keepProbing)
	c.running.Go(c.keepCounting)
	c.running.Go(c.keepReading)
	return c
}

// Close ends the connections and everything that runs in the background. Close the
// lanes first.
func (c *Client) Close() {
	c.stop()
	c.running.Wait()
	c.disconnect()
}

// disconnect closes the connections, if there are any.
func (c *Client) disconnect() {
	if conn := c.conn.Swap(nil); conn != nil {
		(*conn).Close()
	}
	c.docMu.Lock()
	defer c.docMu.Unlock()
	if c.docConn != nil {
		c.docConn.Close()
		c.docConn = nil
	}
}

// Mode is how asks are answered now: store.Exact, or the failure mode.
func (c *Client) Mode() store.Mode {
	if c.breaker.away.Load() {
		return c.cfg.Failure
	}
	return store.Exact
}

// Connected reports whether Redis decides.
func (c *Client) Connected() bool { return !c.breaker.away.Load() }

// Forgetful makes all lanes forget the refusals that they remember. It is called
// after every change of rules or limits.
func (c *Client) Forgetful() { c.epoch.Add(1) }

// Without answers an ask by the failure mode. Decisions are known in mode Local
// only.
func (c *Client) without(now time.Time, ask *store.Ask, ans *store.Answer) {
	c.counts.undecided.Add(uint64(ask.N))
	if c.cfg.Failure == store.Local {
		c.cfg.Local.Take(c.steady(now), ask, ans)
		ans.Mode = store.Local
		return
	}
	ans.Granted, ans.Decisions, ans.Tightest, ans.Mode = 0, ans.Decisions[:0], 0, c.cfg.Failure
	if c.cfg.Failure == store.FailOpen {
		ans.Granted = ask.N
	}
}

// steady is now by a clock that is never set: one that was set back would lock the
// keys of mode Local so long.
func (c *Client) steady(now time.Time) time.Time { return c.began.Add(now.Sub(c.began)) }

// failed opens the breaker for an error of what was sent at sent, and says so
// once; not while the client closes. name is the key that it was about, if that is known.
func (c *Client) failed(now, sent time.Time, name string, err error) {
	if c.stopping.Err() == nil && c.breaker.failed(now, sent) {
		c.enter(name, err)
	}
}

// late counts what was sent at sent and has no answer by now; not while the client
// closes, which ends what is under way.
func (c *Client) late(now, sent time.Time, name string) {
	if c.stopping.Err() == nil && c.breaker.late(now, sent) {
		c.enter(name, fmt.Errorf("%d batches in a row had no answer within %v", missedMax, c.cfg.Timeout))
	}
}

// enter is called once when Redis has gone.
func (c *Client) enter(name string, err error) {
	c.cfg.Log.Warn("Redis connection lost, entering "+modeText(c.cfg.Failure)+" mode", "reason", explain(err))
	c.mu.Lock()
	c.suspect, c.refusal = name, refusalOf(err)
	c.mu.Unlock()
	c.tellLanes()
	select {
	case c.lost <- struct{}{}:
	default:
	}
}

func modeText(m store.Mode) string {
	if m == store.FailOpen {
		return "fail-open"
	}
	return m.String()
}

// leave is called once when Redis is back.
func (c *Client) leave() {
	c.complaint.forget()
	c.cfg.Log.Info("Redis reconnected, resuming normal operation")
	c.tellLanes()
	c.look()
}

// tellLanes has every lane notice that the mode has changed.
func (c *Client) tellLanes() {
	c.Forgetful()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, l := range c.lanes {
		l.post(l.modeChanged)
	}
}

// keepProbing looks for Redis whenever it is away.
func (c *Client) keepProbing() {
	for {
		select {
		case <-c.stopping.Done():
			return
		case <-c.lost:
		}
		for pause := probePauseMin; c.breaker.away.Load(); pause = min(2*pause, probePauseMax) {
			// between half of it and all, so that many proxies do not come at once
			if !c.sleep(pause/2 + rand.N(pause/2)) {
				return
			}
			err := c.tryNow()
			if err == nil && c.breaker.back(time.Now()) {
				c.leave()
			}
			c.tellRefusal(err)
		}
	}
}

// tellRefusal says why Redis does not decide when it answers again, unless that has
// been said.
func (c *Client) tellRefusal(err error) {
	if fault := misconfigured(err); fault != nil {
		c.complain(time.Now(), fault)
		return
	}
	refusal := refusalOf(err)
	c.mu.Lock()
	news := refusal != "" && refusal != c.refusal
	if news {
		c.refusal = refusal
	}
	c.mu.Unlock()
	if news {
		c.cfg.Log.Warn("Redis answers, and does not decide", "reason", explain(err))
	}
}

// sleep waits, and reports false when the client is closing.
func (c *Client) sleep(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-c.stopping.Done():
		return false
	case <-t.C:
		return true
	}
}

// tryNow connects if there is no connection yet, and finds out whether Redis decides.
// When a single server has turned out to be a Cluster, the next call asks anew what
// there is.
func (c *Client) tryNow() error {
	if c.conn.Load() == nil {
		conn, err := c.cfg.connect(writeTimeout)
		if err != nil {
			return fmt.Errorf("connect to redis: %w", err)
		}
		c.conn.Store(&conn)
	}
	err := c.probeNow()
	if c.cfg.Topology == Auto && moved(err) {
		c.disconnect()
	}
	return err
}

// probeNow has a script write, and looks at the key about which the last error was.
func (c *Client) probeNow() error {
	c.mu.Lock()
	suspect := c.suspect
	c.mu.Unlock()
	ctx, cancel := c.within()
	defer cancel()
	if _, err := c.run(ctx, &call{script: c.scripts.probe, keys: []string{c.probe(suspect)}}); err != nil {
		return fmt.Errorf("probe redis: %w", err)
	}
	if suspect == "" {
		return nil
	}
	conn := *c.conn.Load()
	if err := conn.Do(ctx, conn.B().Exists().Key(suspect).Build()).Error(); err != nil {
		return fmt.Errorf("probe redis: %w", err)
	}
	return nil
}

// probe returns the name that the prober writes: in the slot of a key that failed,
// if that has a hash tag.
func (c *Client) probe(suspect string) string {
	if strings.Contains(suspect, "{") {
		return suspect + probeName
	}
	return c.cfg.KeyPrefix + probeName
}

// within is the time that one exchange with Redis may take.
func (c *Client) within() (context.Context, context.CancelFunc) {
	return context.WithTimeout(c.stopping, c.cfg.Timeout)
}

// run runs one script beside the lanes.
func (c *Client) run(ctx context.Context, call *call) (rueidis.RedisMessage, error) {
	loaded := c.conn.Load()
	if loaded == nil {
		return rueidis.RedisMessage{}, errAway
	}
	conn := *loaded
	c.counts.commands.Inc()
	reply := conn.Do(ctx, call.command(conn.B(), false))
	if faultOf(reply.Error()) == faultScript {
		c.counts.commands.Inc()
		c.counts.reloads.Inc()
		reply = conn.Do(ctx, call.command(conn.B(), true))
	}
	return reply.ToMessage()
}

// do is run for what needs Redis now, with the timeout, and tells the breaker how
// it went.
func (c *Client) do(call *call) (rueidis.RedisMessage, error) {
	if c.breaker.away.Load() {
		return rueidis.RedisMessage{}, errAway
	}
	ctx, cancel := c.within()
	defer cancel()
	sent := time.Now()
	message, err := c.run(ctx, call)
	c.judge(sent, call.keys[0], err)
	return message, err
}

// judge tells the breaker how an exchange went that was sent at sent.
func (c *Client) judge(sent time.Time, name string, err error) {
	if err != nil {
		c.counts.errors.Inc()
	}
	switch c.faultOf(err) {
	case faultNone, faultItem, faultScript:
		c.breaker.answered()
	case faultDeadline:
		c.late(time.Now(), sent, name)
	case faultAway:
		c.failed(time.Now(), sent, name, err)
	}
}

// A grumble lets a complaint that would come with every request through once a
// minute, with how many were kept back.
//
// Safe for concurrent use: mu guards.
type grumble struct {
	mu   sync.Mutex
	last time.Time
	kept int
}

func (g *grumble) due(now time.Time) (kept int, due bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.last.IsZero() && now.Sub(g.last) < time.Minute {
		g.kept++
		return 0, false
	}
	kept, g.kept, g.last = g.kept, 0, now
	return kept, true
}

// forget has the next complaint be told at once.
func (g *grumble) forget() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.last, g.kept = time.Time{}, 0
}

// undecidable notes that one call cannot be decided.
func (c *Client) undecidable(now time.Time, about string, err error) {
	if kept, due := c.grumble.due(now); due {
		c.cfg.Log.Warn("Redis cannot decide about a key, its requests follow the failure mode", "counters", about, "reason", err, "more", kept)
	}
}
