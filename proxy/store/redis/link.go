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
	cfg.dialTimeout = cmp.Or(cfg.dialTimeout, linkDialTimeout)
	return &Client{cfg: cfg, unanswered: unanswered}, nil
}

// linkDialTimeout bounds a dial of a Client.
const linkDialTimeout = time.Second

// errLinkClosed is the error of a Client that was closed.
var errLinkClosed = errors.New("the connection to redis is closed")

// connected returns the connection, and connects if there is none.
func (l *Client) connected() (rueidis.Client, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed:
		return nil, errLinkClosed
	case l.conn != nil:
		return l.conn, nil
	}
	conn, err := l.cfg.connect(l.unanswered)
	if err != nil {
		return nil, fmt.Errorf("connect to redis: %w", explain(err))
	}
	l.conn = conn
	return conn, nil
}

// Run runs scripts in order, in one pipeline. All have key as their only key; other keys that
// they use must be in the same slot. If the server does not have a script, it is sent in
// full; nothing else is repeated. After an error a script may have been executed, unless the
// server itself answered.
func (l *Client) Run(ctx context.Context, key string, runs ...ScriptCall) []Reply {
	replies := make([]Reply, len(runs))
	conn, err := l.connected()
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
			l.failed(conn, err)
		}
	}
	return replies
}

// failed makes the next run detect the topology again, if the error shows another one.
func (l *Client) failed(conn rueidis.Client, err error) {
	if l.cfg.Topology != Auto || !moved(err) || conn.Mode() == rueidis.ClientModeCluster {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn == conn {
		l.conn = nil
		conn.Close()
	}
}

// Settings returns the answer of each server to CONFIG GET with a pattern.
func (l *Client) Settings(ctx context.Context, pattern string) ([]map[string]string, error) {
	conn, err := l.connected()
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
func (l *Client) Fault(err error) store.Fault {
	l.mu.Lock()
	cluster := l.conn != nil && l.conn.Mode() == rueidis.ClientModeCluster
	l.mu.Unlock()
	return faultOf(err, cluster)
}

// Close closes the connection.
func (l *Client) Close() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.disconnect()
}

// disconnect closes the connection, if there is one; the next run connects again.
func (l *Client) disconnect() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn != nil {
		l.conn.Close()
		l.conn = nil
	}
}
