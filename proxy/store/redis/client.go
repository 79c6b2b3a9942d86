package redis

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"weir/internal/program/metric"
	"weir/proxy/store"
	"weir/proxy/store/lane"
)

// probeName is what the prober writes.
const probeName = namespace + "probe"

// A client is the [lane.Backend] of a store in Redis.
//
// Safe for concurrent use: what changes is atomic, or guarded by mu; documents is safe itself.
type client struct {
	cfg     Config
	scripts scripts
	counts  counts
	conn    atomic.Pointer[rueidis.Client]
	noted   noted
	dials   atomic.Uint64 // connections for decisions that were begun
	senders sync.Pool     // of *sender

	mu      sync.Mutex
	suspect string // the name that the last error was about; in a Cluster only its node may be unavailable

	epochs, clusterEpochs []string // names; see epochNames

	documents *Client // separate from conn, so that documents do not delay decisions
}

// New connects to Redis and returns a store. If Redis is unavailable, the store starts in the
// failure mode and keeps trying. An error is about the configuration; see Config.Validate.
func New(cfg Config) (*lane.Store, error) {
	s, _, err := open(cfg, newScripts())
	return s, err
}

func open(cfg Config, scripts scripts) (*lane.Store, *client, error) {
	cfg.Name, cfg.Title = "redis", "Redis"
	if err := cfg.Validate(); err != nil {
		return nil, nil, fmt.Errorf("use redis: %w", err)
	}
	cfg.Config = cfg.Config.WithDefaults()
	cfg.dialTimeout = cmp.Or(cfg.dialTimeout, dialDefault)
	c := &client{cfg: cfg, scripts: scripts, counts: counts{exchanges: metric.NewHistogram(metric.LatencyBuckets())}}
	c.cfg.dialed = c.dialed
	c.epochs, c.clusterEpochs = epochNames(cfg.KeyPrefix)
	cfg.dialTimeout = store.DocumentTimeout(0)
	c.documents = &Client{cfg: cfg, unanswered: store.DocumentTimeout(store.DocumentBytesMax)}
	return lane.New(c, c.cfg.Config), c, nil
}

func (c *client) Close() {
	c.disconnect()
	c.documents.Close()
}

// disconnect closes the connections, if there are any.
func (c *client) disconnect() {
	if conn := c.conn.Swap(nil); conn != nil {
		(*conn).Close()
	}
	c.documents.disconnect()
}

// Probe connects if there is no connection, and checks whether Redis decides. If a single
// server has turned out to be a Cluster, the next call detects the topology again.
func (c *client) Probe(ctx context.Context) error {
	if c.conn.Load() == nil {
		conn, err := c.cfg.connect(writeTimeout)
		if err != nil {
			return fmt.Errorf("connect to redis: %w", explain(err))
		}
		c.conn.Store(&conn)
	}
	err := c.probe(ctx)
	if err == nil {
		c.noted.forget() // Redis may have lost them
	}
	if c.cfg.Topology == Auto && moved(err) {
		c.disconnect()
	}
	return explain(err)
}

// probe writes in a script, and reads the key that the last error was about.
func (c *client) probe(ctx context.Context) error {
	c.mu.Lock()
	suspect := c.suspect
	c.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Timeout)
	defer cancel()
	conn := *c.conn.Load()
	_, err := c.run(ctx, conn, &call{script: c.scripts.probe, keys: []string{c.probeName(suspect)}})
	if err == nil && suspect != "" {
		err = conn.Do(ctx, conn.B().Exists().Key(suspect).Build()).Error()
	}
	if err != nil {
		return fmt.Errorf("probe redis: %w", err)
	}
	return nil
}

// probeName returns the name that the probe writes: in the slot of the suspect key, if that
// has a hash tag.
func (c *client) probeName(suspect string) string {
	if strings.Contains(suspect, "{") {
		return suspect + probeName
	}
	return c.cfg.KeyPrefix + probeName
}

// connected returns the connection for everything except documents.
func (c *client) connected() (rueidis.Client, error) {
	if conn := c.conn.Load(); conn != nil {
		return *conn, nil
	}
	return nil, errUnavailable
}

func (c *client) run(ctx context.Context, conn rueidis.Client, call *call) (rueidis.RedisMessage, error) {
	c.counts.commands.Inc()
	reply := conn.Do(ctx, call.command(conn.B(), false))
	if unknownScript(reply.Error()) {
		c.counts.commands.Inc()
		c.counts.reloads.Inc()
		reply = conn.Do(ctx, call.command(conn.B(), true))
	}
	return reply.ToMessage()
}

func (c *client) Lease(ctx context.Context, name, owner string, ttl time.Duration) (bool, error) {
	conn, err := c.connected()
	if err != nil {
		return false, err
	}
	name = c.cfg.KeyPrefix + name
	reply, err := c.run(ctx, conn, &call{script: c.scripts.lease, keys: []string{name},
		args: []string{owner, strconv.FormatInt(ttl.Milliseconds(), 10)}})
	if err != nil {
		return false, c.failed(name, err)
	}
	held, err := reply.AsInt64()
	if err != nil {
		return false, errReply
	}
	return held == 1, nil
}

// failed counts an error, remembers the name that it was about if Redis may be unavailable,
// and returns it with an explanation.
func (c *client) failed(name string, err error) error {
	if err == nil {
		return nil
	}
	c.counts.errors.Inc()
	if c.classOf(err) > store.ItemFault {
		c.mu.Lock()
		c.suspect = name
		c.mu.Unlock()
	}
	return explain(err)
}

// counts are the counts of a client.
//
// Safe for concurrent use: all are atomic.
type counts struct {
	commands  metric.Counter // sent to Redis
	errors    metric.Counter
	reloads   metric.Counter // calls repeated in full after NOSCRIPT
	exchanges *metric.Histogram
}

func (c *client) Register(set *metric.Set) {
	n := &c.counts
	set.Histogram("ratelimiter_redis_request_duration_seconds", "how long Redis took to answer a batch", n.exchanges)
	set.Counter("ratelimiter_redis_errors_total", "calls without a usable answer", n.errors.Load)
	set.Counter("ratelimiter_redis_script_reloads_total",
		"calls repeated in full because the server did not know the script", n.reloads.Load)
	set.Counter("ratelimiter_store_commands_total", "commands sent to the store", n.commands.Load)
}
