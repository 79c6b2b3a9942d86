package redis

import (
	"crypto/tls"
	"fmt"
	"net"
	"strings"
	"syscall"
	"time"

	"github.com/redis/rueidis"

	"weir/internal/data/strict"
	"weir/internal/program/certs"
	"weir/proxy/store/lane"
)

// Bounds and defaults.
const (
	// scriptCountersMax bounds the counters of one call of the script, which blocks the
	// server: 128 take about 1 ms, of sliding_log 3 ms. The calls of a batch form one
	// pipeline, and the server handles other clients in between.
	scriptCountersMax = 128
	dialDefault       = 200 * time.Millisecond // all callers wait for one dial
	writeTimeout      = time.Second            // a connection without an answer for this time is closed
	keepAlive         = time.Second            // silence after which the library sends PING; also for TCP keep-alive
	bufferBytes       = 64 << 10
	redirectsMax      = 3               // MOVED and ASK that one call follows
	refreshEvery      = 2 * time.Second // interval of queries about the topology
	connsLog2Each     = -1              // one connection per node, since pipelining needs no more
)

// Config configures a store in Redis. Zero fields mean the defaults.
type Config struct {
	lane.Config // without Name and Title

	// Addrs is host:port of the server, of the Sentinels, or of some nodes of a Cluster; or
	// the path of the server's unix socket.
	Addrs    []string
	Topology Topology
	// SentinelMaster is the name of the master that the Sentinels monitor; empty without
	// Sentinels.
	SentinelMaster string

	Username, Password                 string // of an ACL user; without a name that of the default user
	SentinelUsername, SentinelPassword string
	DB                                 int // 0 in a Cluster

	TLS           bool
	TLSCAFile     string // PEM; empty: the system's authorities
	TLSServerName string // in the certificate; empty: the host's name
	TLSAnyName    bool   // the certificate may be for any name

	TLSCertFile, TLSKeyFile string // PEM, of a client; empty: none

	// KeyPrefix is the prefix of every name in Redis, for several installations that
	// share one.
	KeyPrefix string

	dialTimeout time.Duration                               // 200 ms, except in tests
	dialed      func(string, string, syscall.RawConn) error // called for each connection; nil: nothing is
}

// Validate returns strict.Faults, or nil.
func (cfg Config) Validate() error {
	var f strict.Reader
	f.Check(len(cfg.Addrs) == 0, "Addrs", "is empty")
	for _, addr := range cfg.Addrs {
		_, _, err := net.SplitHostPort(addr)
		f.Check(err != nil && !isPath(addr), "Addrs", "%q is not host:port", addr)
		t := cfg.declared()
		f.Check(isPath(addr) && (t == Cluster || t == Sentinel), "Addrs",
			"%q cannot be used with a Cluster or Sentinels; allowed: host:port", addr)
	}
	cfg.checkTopology(&f)
	f.Check(cfg.DB < 0, "DB", "must be at least 0, is %d", cfg.DB)
	f.Check(cfg.Username != "" && cfg.Password == "", "Password", "is missing; allowed: that of the user")
	f.Check(!cfg.TLS && cfg.TLSCAFile != "", "TLSCAFile", "has no effect without TLS; allowed: nothing")
	f.Check(!cfg.TLS && cfg.TLSServerName != "", "TLSServerName", "has no effect without TLS; allowed: nothing")
	f.Check(!cfg.TLS && cfg.TLSAnyName, "TLSAnyName", "has no effect without TLS; allowed: false")
	f.Check(!cfg.TLS && cfg.TLSCertFile != "", "TLSCertFile", "has no effect without TLS; allowed: nothing")
	f.Check(strings.ContainsAny(cfg.KeyPrefix, "{}"), "KeyPrefix", "must have no braces, which mark hash tags")
	cfg.Config.Check(&f)
	return f.Err()
}

// checkTopology adds the faults of settings that contradict the topology.
func (cfg *Config) checkTopology(f *strict.Reader) {
	t := cfg.declared()
	f.Check(t > Sentinel, "Topology", "is unknown; allowed: auto, single, cluster, sentinel")
	f.Check(t == Single && len(cfg.Addrs) > 1, "Addrs", "cannot be used with a single server; allowed: one address")
	f.Check(t == Cluster && cfg.DB != 0, "DB", "cannot be used with a Cluster; allowed: 0")
	f.Check(t == Sentinel && cfg.SentinelMaster == "", "SentinelMaster",
		"is missing; allowed: the name of the master that the Sentinels watch")
	if t == Sentinel {
		f.Check(cfg.SentinelUsername != "" && cfg.SentinelPassword == "", "SentinelPassword",
			"is missing; allowed: that of the user of the Sentinels")
		return
	}
	const useless = "has no effect without Sentinels; allowed: nothing"
	f.Check(cfg.SentinelMaster != "", "SentinelMaster", useless)
	f.Check(cfg.SentinelUsername != "", "SentinelUsername", useless)
	f.Check(cfg.SentinelPassword != "", "SentinelPassword", useless)
}

// tlsConfig returns nil for a connection without TLS.
func (cfg *Config) tlsConfig() (*tls.Config, error) {
	if !cfg.TLS {
		return nil, nil
	}
	c, err := certs.Client(cfg.TLSCAFile, cfg.TLSServerName)
	if err != nil {
		return nil, fmt.Errorf("TLSCAFile: %w", err)
	}
	c.NextProtos, c.ClientSessionCache = nil, nil // of HTTP
	if cfg.TLSAnyName {
		certs.SkipNameCheck(c)
	}
	if cfg.TLSCertFile != "" {
		if err := certs.PresentCertificate(c, cfg.TLSCertFile, cfg.TLSKeyFile); err != nil {
			return nil, fmt.Errorf("TLSCertFile: %w", err)
		}
	}
	return c, nil
}

// option converts the configuration for the library; the topology must be known. It disables
// retries, because a call without an answer may have been executed, and always uses
// pipelining, because otherwise a passed deadline would close the connection.
func (cfg *Config) option() (rueidis.ClientOption, error) {
	secure, err := cfg.tlsConfig()
	if err != nil {
		return rueidis.ClientOption{}, err
	}
	dialer := net.Dialer{Timeout: cfg.dialTimeout, KeepAlive: keepAlive, Control: cfg.dialed}
	option := rueidis.ClientOption{
		InitAddress: cfg.Addrs, Dialer: dialer, DialCtxFn: dialAddr, TLSConfig: secure,
		Username: cfg.Username, Password: cfg.Password, SelectDB: cfg.DB,
		ClientName: "weir", ClientSetInfo: rueidis.DisableClientSetInfo,
		AlwaysPipelining: true, DisableRetry: true, DisableCache: true,
		ReadBufferEachConn: bufferBytes, WriteBufferEachConn: bufferBytes,
		PipelineMultiplex: connsLog2Each,
		ClusterOption:     rueidis.ClusterOption{ShardsRefreshInterval: refreshEvery, MaxMovedRedirections: redirectsMax},
		ForceSingleClient: cfg.Topology == Single,
	}
	if cfg.Topology == Sentinel {
		option.Sentinel = rueidis.SentinelOption{
			Dialer: dialer, TLSConfig: secure, MasterSet: cfg.SentinelMaster,
			Username: cfg.SentinelUsername, Password: cfg.SentinelPassword,
			TopologyRefreshInterval: refreshEvery,
		}
	}
	return option, nil
}
