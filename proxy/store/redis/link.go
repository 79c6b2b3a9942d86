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

// A Link is a connection for what is kept in Redis beside limits: it runs scripts whose keys
// are all in one slot. It connects when it is first used, and again after a failure.
//
// Safe for concurrent use: mu guards the connection.
type Link struct {
	cfg        Config
	unanswered time.Duration

	mu     sync.Mutex
	conn   rueidis.Client // nil until it is needed
	closed bool
}

// A Script is a program for Redis; Redis knows it by its SHA-1 once it has run it.
type Script = script

// NewScript returns the script with that text.
func NewScript(source string) *Script { return newScript(source) }

// A Run is one run of a script.
type Run struct {
	Script *Script
	Args   []string
}

// A Reply is what a run returned: an int64, a string, nil, or a []any of these.
type Reply struct {
	Value any
	Err   error
}

// NewLink returns a link that is not connected yet. Of cfg only where Redis is and how to
// connect to it matters. A connection without an answer for unanswered is given up. The error
// is about the configuration.
func NewLink(cfg Config, unanswered time.Duration) (*Link, error) {
	cfg.Config = lane.Config{}
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("use redis: %w", err)
	}
	cfg.dialTimeout = cmp.Or(cfg.dialTimeout, linkDialTimeout)
	return &Link{cfg: cfg, unanswered: unanswered}, nil
}

// linkDialTimeout is how long a link waits for a connection to one address.
const linkDialTimeout = time.Second

// errLinkClosed is the error of a link that was closed.
var errLinkClosed = errors.New("the connection to redis is closed")

// connected returns the connection, which it makes if there is none.
func (l *Link) connected() (rueidis.Client, error) {
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

// Run runs scripts one after the other in one pipeline. All have key as their only key, and
// name others by themselves, in the same slot. A run whose script the server does not know is
// repeated in full; nothing else is sent twice. After an error a script may have run, unless
// the server itself has answered.
func (l *Link) Run(ctx context.Context, key string, runs ...Run) []Reply {
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
	results, _ := runAll(conn.B(), calls, func(c []rueidis.Completed) []rueidis.RedisResult { return conn.DoMulti(ctx, c...) })
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

// failed has the server be asked anew what it is, when it has turned out to be something else.
func (l *Link) failed(conn rueidis.Client, err error) {
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

// Settings returns what CONFIG GET says of a pattern, for each server.
func (l *Link) Settings(ctx context.Context, pattern string) ([]map[string]string, error) {
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

// Fault says what an error of a Run means.
func (l *Link) Fault(err error) store.Fault {
	l.mu.Lock()
	cluster := l.conn != nil && l.conn.Mode() == rueidis.ClientModeCluster
	l.mu.Unlock()
	return faultOf(err, cluster)
}

// Close ends the connection.
func (l *Link) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed = true; l.conn != nil {
		l.conn.Close()
		l.conn = nil
	}
}
