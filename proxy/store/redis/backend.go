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

// A backend is the [lane.Backend] of a store in Redis.
//
// Safe for concurrent use: what changes is atomic, or guarded by mu; documents is safe itself.
type backend struct {
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

func open(cfg Config, scripts scripts) (*lane.Store, *backend, error) {
	cfg.Name, cfg.Title = "redis", "Redis"
	if err := cfg.Validate(); err != nil {
		return nil, nil, fmt.Errorf("use redis: %w", err)
	}
	cfg.Config = cfg.Config.WithDefaults()
	cfg.dialTimeout = cmp.Or(cfg.dialTimeout, dialDefault)
	c := &backend{cfg: cfg, scripts: scripts, counts: counts{exchanges: metric.NewHistogram(metric.LatencyBuckets())}}
	c.cfg.dialed = c.dialed
	c.epochs, c.clusterEpochs = epochNames(cfg.KeyPrefix)
	cfg.dialTimeout = store.DocumentTimeout(0)
	c.documents = &Client{cfg: cfg, unanswered: store.DocumentTimeout(store.DocumentBytesMax)}
	return lane.New(c, c.cfg.Config), c, nil
}

func (be *backend) Close() {
	be.disconnect()
	be.documents.Close()
}

// disconnect closes the connections, if there are any.
func (be *backend) disconnect() {
	if conn := be.conn.Swap(nil); conn != nil {
		(*conn).Close()
	}
	be.documents.disconnect()
}

// Probe connects if there is no connection, and checks whether Redis decides. If a single
// server has turned out to be a Cluster, the next call detects the topology again.
func (be *backend) Probe(ctx context.Context) error {
	if be.conn.Load() == nil {
		conn, err := be.cfg.connect(writeTimeout)
		if err != nil {
			return fmt.Errorf("connect to redis: %w", explain(err))
		}
		be.conn.Store(&conn)
	}
	err := be.probe(ctx)
	if err == nil {
		be.noted.forget() // Redis may have lost them
	}
	if be.cfg.Topology == Auto && moved(err) {
		be.disconnect()
	}
	return explain(err)
}

// probe writes in a script, and reads the key that the last error was about.
func (be *backend) probe(ctx context.Context) error {
	be.mu.Lock()
	suspect := be.suspect
	be.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, be.cfg.Timeout)
	defer cancel()
	conn := *be.conn.Load()
	_, err := be.run(ctx, conn, &call{script: be.scripts.probe, keys: []string{be.probeName(suspect)}})
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
func (be *backend) probeName(suspect string) string {
	if strings.Contains(suspect, "{") {
		return suspect + probeName
	}
	return be.cfg.KeyPrefix + probeName
}

// connected returns the connection for everything except documents.
func (be *backend) connected() (rueidis.Client, error) {
	if conn := be.conn.Load(); conn != nil {
		return *conn, nil
	}
	return nil, errUnavailable
}

func (be *backend) run(ctx context.Context, conn rueidis.Client, call *call) (rueidis.RedisMessage, error) {
	be.counts.commands.Inc()
	reply := conn.Do(ctx, call.command(conn.B(), false))
	if unknownScript(reply.Error()) {
		be.counts.commands.Inc()
		be.counts.reloads.Inc()
		reply = conn.Do(ctx, call.command(conn.B(), true))
	}
	return reply.ToMessage()
}

func (be *backend) Lease(ctx context.Context, name, owner string, ttl time.Duration) (bool, error) {
	conn, err := be.connected()
	if err != nil {
		return false, err
	}
	name = be.cfg.KeyPrefix + name
	reply, err := be.run(ctx, conn, &call{script: be.scripts.lease, keys: []string{name},
		args: []string{owner, strconv.FormatInt(ttl.Milliseconds(), 10)}})
	if err != nil {
		return false, be.failed(name, err)
	}
	held, err := reply.AsInt64()
	if err != nil {
		return false, errReply
	}
	return held == 1, nil
}

// failed counts an error, remembers the name that it was about if Redis may be unavailable,
// and returns it with an explanation.
func (be *backend) failed(name string, err error) error {
	if err == nil {
		return nil
	}
	be.counts.errors.Inc()
	if be.classOf(err) > store.ItemFault {
		be.mu.Lock()
		be.suspect = name
		be.mu.Unlock()
	}
	return explain(err)
}

// counts are the counts of a backend.
//
// Safe for concurrent use: all are atomic.
type counts struct {
	commands  metric.Counter // sent to Redis
	errors    metric.Counter
	reloads   metric.Counter // calls repeated in full after NOSCRIPT
	exchanges *metric.Histogram
}

func (be *backend) Register(set *metric.Set) {
	n := &be.counts
	set.Histogram("ratelimiter_redis_request_duration_seconds", "how long Redis took to answer a batch", n.exchanges)
	set.Counter("ratelimiter_redis_errors_total", "calls without a usable answer", n.errors.Load)
	set.Counter("ratelimiter_redis_script_reloads_total",
		"calls repeated in full because the server did not know the script", n.reloads.Load)
	set.Counter("ratelimiter_store_commands_total", "commands sent to the store", n.commands.Load)
}
