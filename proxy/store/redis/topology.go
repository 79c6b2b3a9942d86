package redis

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"weir/proxy/store"
)

// A Topology is the arrangement of the servers.
type Topology uint8

const (
	Auto     Topology = iota // with a SentinelMaster Sentinel, with several Addrs Cluster, otherwise detected
	Single                   // one server, or a proxy that looks like one
	Cluster                  // Addrs are some of its nodes
	Sentinel                 // Addrs are the Sentinels
)

// String returns the word used in settings.
func (t Topology) String() string { return [...]string{"auto", "single", "cluster", "sentinel"}[t] }

// declared returns the topology that follows from the configuration, or Auto if it must be
// detected.
func (cfg *Config) declared() Topology {
	switch {
	case cfg.Topology != Auto:
		return cfg.Topology
	case cfg.SentinelMaster != "":
		return Sentinel
	case len(cfg.Addrs) > 1:
		return Cluster
	}
	return Auto
}

// connect makes the library's client, which fails while Redis is unavailable. Later the client
// reconnects by itself. A connection without an answer for the time unanswered is closed.
func (cfg Config) connect(unanswered time.Duration) (rueidis.Client, error) {
	cfg.Topology = cfg.declared()
	if cfg.Topology == Auto {
		var err error
		if cfg.Topology, err = cfg.ask(); err != nil {
			return nil, err
		}
	}
	conn, err := cfg.dial(unanswered)
	if err == nil && cfg.Topology == Cluster && conn.Mode() != rueidis.ClientModeCluster {
		conn.Close() // the library would continue with a single server
		return nil, wrong(store.WrongProtocol,
			"%s does not answer like a node of a Cluster: it is not one, or it forbids CLUSTER", cfg.Addrs[0])
	}
	return conn, err
}

// dial is connect with a known topology.
func (cfg *Config) dial(unanswered time.Duration) (rueidis.Client, error) {
	option, err := cfg.option()
	if err != nil {
		return nil, err
	}
	option.ConnWriteTimeout = unanswered
	conn, err := rueidis.NewClient(option)
	if err != nil {
		if conn != nil {
			conn.Close()
		}
		return nil, err
	}
	return conn, nil
}

// isPath reports whether an address is the path of a unix socket.
func isPath(addr string) bool { return strings.HasPrefix(addr, "/") }

// dialAddr connects to a host and port or to a path, with TLS unless secure is nil.
func dialAddr(ctx context.Context, addr string, dialer *net.Dialer, secure *tls.Config) (net.Conn, error) {
	network := "tcp"
	if isPath(addr) {
		network = "unix"
	}
	if secure == nil {
		return dialer.DialContext(ctx, network, addr)
	}
	return dialTLS(ctx, network, addr, dialer, secure)
}

// dialTLS connects with TLS. A server without TLS often does not answer the handshake; the
// error distinguishes that from a server that cannot be reached.
func dialTLS(ctx context.Context, network, addr string, dialer *net.Dialer, secure *tls.Config) (net.Conn, error) {
	conn, err := (&tls.Dialer{NetDialer: dialer, Config: secure}).DialContext(ctx, network, addr)
	if err == nil {
		return conn, nil
	}
	op, known := errors.AsType[*net.OpError](err)
	_, spoken := errors.AsType[tls.RecordHeaderError](err)
	switch {
	case known && op.Op == "dial":
		return nil, err
	case spoken:
		return nil, wrong(store.WrongProtocol, "%s speaks without TLS (REDIS_TLS): %w", addr, err)
	case errors.Is(err, context.DeadlineExceeded):
		return nil, fmt.Errorf("%s did not answer the TLS handshake within %v: if it has no TLS, set REDIS_TLS=false: %w",
			addr, dialer.Timeout, err)
	}
	return nil, fmt.Errorf("TLS handshake with %s: %w", addr, err)
}

// ask detects the topology: by HELLO, which reports it from Redis 6 on, or otherwise by
// CLUSTER INFO.
func (cfg Config) ask() (Topology, error) {
	db := cfg.DB
	cfg.Topology, cfg.DB = Single, 0 // every server has database 0
	conn, err := cfg.dial(writeTimeout)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(context.Background(), cfg.dialTimeout)
	defer cancel()
	mode := "standalone"
	hello, err := conn.Do(ctx, conn.B().Hello().Protover(3).Build()).AsMap()
	if err == nil {
		said := hello["mode"]
		mode, err = said.ToString()
	} else if _, old := rueidis.IsRedisErr(err); old {
		err = conn.Do(ctx, conn.B().ClusterInfo().Build()).Error()
		if err == nil {
			mode = "cluster"
		} else if _, refused := rueidis.IsRedisErr(err); refused {
			err = nil
		}
	}
	switch {
	case err != nil:
		return 0, fmt.Errorf("ask what %s is: %w", cfg.Addrs[0], err)
	case mode == "cluster" && db != 0:
		return 0, wrong(store.NoDatabase, "%s is a node of a Cluster, which has only database 0, not %d", cfg.Addrs[0], db)
	case mode == "cluster":
		return Cluster, nil
	case mode == "sentinel":
		return 0, wrong(store.WrongProtocol, "%s is a Sentinel, and REDIS_SENTINEL_MASTER is not set", cfg.Addrs[0])
	}
	return Single, nil
}

// wrong makes a *store.MisconfiguredError.
func wrong(cause store.MisconfigCause, format string, args ...any) error {
	return &store.MisconfiguredError{Cause: cause, Err: fmt.Errorf(format, args...)}
}

// moved reports whether an error says that a key is on another node.
func moved(err error) bool { return refusalOf(err) == "MOVED" }

// explain adds an explanation to some errors.
func explain(err error) error {
	if moved(err) {
		return fmt.Errorf("%w: it is a node of a Cluster, but was used as a single server", err)
	}
	return err
}
