package redis

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/rueidis"

	"weir/proxy/store"
)

// A Topology is how the servers of a store are arranged.
type Topology uint8

const (
	Auto     Topology = iota // with a SentinelMaster Sentinel, with several Addrs Cluster, else what the server says
	Single                   // one server, or a proxy that looks like one
	Cluster                  // Addrs are some of its nodes, or lead to them
	Sentinel                 // Addrs are the Sentinels
)

// String returns the word that settings have.
func (t Topology) String() string { return [...]string{"auto", "single", "cluster", "sentinel"}[t] }

// ParseTopology returns the topology that a setting's word means.
func ParseTopology(word string) (Topology, error) {
	for t := Auto; t <= Sentinel; t++ {
		if word == t.String() {
			return t, nil
		}
	}
	return 0, fmt.Errorf("must be one of auto, single, cluster, sentinel, is %q", word)
}

// declared is the topology that follows from the configuration alone: Auto when the
// server has to be asked.
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

// connect makes the library's client, which fails while Redis is away; once it is
// made, it reconnects by itself. A connection without an answer for unanswered is
// given up.
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
		conn.Close() // the library goes on with a single server
		return nil, wrong(store.WrongProtocol, "%s does not answer as a node of a Cluster does, and may not be one, or forbid CLUSTER", cfg.Addrs[0])
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

// ask asks the server what it is: by HELLO, which says so from Redis 6 on, or whether
// it knows a Cluster. The error says why there is no topology to go on with.
func (cfg Config) ask() (Topology, error) {
	db := cfg.DB
	cfg.Topology, cfg.DB = Single, 0 // which every server has
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
		return 0, wrong(store.WrongProtocol, "%s is a Sentinel, and REDIS_SENTINEL_MASTER does not say of what", cfg.Addrs[0])
	}
	return Single, nil
}

// wrong makes a *store.MisconfiguredError.
func wrong(cause store.Cause, format string, args ...any) error {
	return &store.MisconfiguredError{Cause: cause, Err: fmt.Errorf(format, args...)}
}

// moved reports whether an error says that a key is on another node.
func moved(err error) bool { return refusalOf(err) == "MOVED" }

// explain adds to an error what its words do not say.
func explain(err error) error {
	if moved(err) {
		return fmt.Errorf("%w: it is a node of a Cluster, and was taken for a single server", err)
	}
	return err
}
