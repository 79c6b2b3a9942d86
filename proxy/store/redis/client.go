package redis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"weir/proxy/store"
	"weir/proxy/store/lane"
)

// A Client is a connection for data other than limits: it runs scripts whose keys are all in one
// slot. It connects on first use, and again after a failure.
//
// Safe for concurrent use: mu guards the connection.
type Client struct {
	cfg        Config
	unanswered time.Duration

	mu     sync.Mutex
	conn   rueidis.Client // nil until needed
	closed bool
}

// A ScriptCall is one run of a script.
type ScriptCall struct {
	Script *Script
	Args   []string
}

// A Reply is what a run returned: an int64, a string, nil, or a []any of these.
type Reply struct {
	Value any
	Err   error
}

// NewClient returns a Client that is not connected yet. It uses only the fields of cfg that
// concern the connection. A connection without an answer for the time unanswered is closed.
// The error is about the configuration.
func NewClient(cfg Config, unanswered time.Duration) (*Client, error) {
	cfg.Config = lane.Config{}
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("use redis: %w", err)
	}
	cfg.dialTimeout = cmp.Or(cfg.dialTimeout, clientDialTimeout)
	return &Client{cfg: cfg, unanswered: unanswered}, nil
}

// clientDialTimeout bounds a dial of a Client.
const clientDialTimeout = time.Second

// errClientClosed is the error of a Client that was closed.
var errClientClosed = errors.New("the connection to redis is closed")

// connected returns the connection, and connects if there is none.
func (c *Client) connected() (rueidis.Client, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return nil, errClientClosed
	case c.conn != nil:
		return c.conn, nil
	}
	conn, err := c.cfg.connect(c.unanswered)
	if err != nil {
		return nil, fmt.Errorf("connect to redis: %w", explain(err))
	}
	c.conn = conn
	return conn, nil
}

// Run runs scripts in order, in one pipeline. All have key as their only key; other keys that
// they use must be in the same slot. If the server does not have a script, it is sent in
// full; nothing else is repeated. After an error a script may have been executed, unless the
// server itself answered.
func (c *Client) Run(ctx context.Context, key string, runs ...ScriptCall) []Reply {
	replies := make([]Reply, len(runs))
	conn, err := c.connected()
	if err != nil {
		for i := range replies {
			replies[i].Err = err
		}
		return replies
	}
	calls := make([]call, len(runs))
	for i, r := range runs {
		calls[i] = call{script: r.Script, keys: []string{key}, args: r.Args}
	}
	results, _ := runAll(conn.B(), calls,
		func(c []rueidis.Completed) []rueidis.RedisResult { return conn.DoMulti(ctx, c...) })
	for i, r := range results {
		message, err := r.ToMessage()
		if err == nil {
			replies[i].Value, err = message.ToAny()
		}
		if err != nil && !rueidis.IsRedisNil(err) {
			replies[i].Err = explain(err)
			c.failed(conn, err)
		}
	}
	return replies
}

// failed makes the next run detect the topology again, if the error shows another one.
func (c *Client) failed(conn rueidis.Client, err error) {
	if c.cfg.Topology != Auto || !moved(err) || conn.Mode() == rueidis.ClientModeCluster {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.conn == conn {
		c.conn = nil
		conn.Close()
	}
}

// Settings returns the answer of each server to CONFIG GET with a pattern.
func (c *Client) Settings(ctx context.Context, pattern string) ([]map[string]string, error) {
	conn, err := c.connected()
	if err != nil {
		return nil, err
	}
	var all []map[string]string
	for _, node := range conn.Nodes() {
		settings, err := node.Do(ctx, node.B().ConfigGet().Parameter(pattern).Build()).AsStrMap()
		if err != nil {
			return nil, fmt.Errorf("config get %s: %w", pattern, err)
		}
		all = append(all, settings)
	}
	return all, nil
}

// Fault classifies an error of a ScriptCall.
func (c *Client) Fault(err error) store.Fault {
	c.mu.Lock()
	cluster := c.conn != nil && c.conn.Mode() == rueidis.ClientModeCluster
	c.mu.Unlock()
	return faultOf(err, cluster)
}

// Close closes the connection.
func (c *Client) Close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.disconnect()
}

// disconnect closes the connection, if there is one; the next run connects again.
func (c *Client) disconnect() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.conn != nil {
		c.conn.Close()
		c.conn = nil
	}
}
