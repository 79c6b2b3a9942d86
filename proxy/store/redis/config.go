package redis

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"weir/proxy/store"
	"weir/proxy/store/simredis"
)

// Bounds and defaults.
const (
	timeoutDefault  = 100 * time.Millisecond
	timeoutMax      = 2 * time.Second
	inFlightDefault = 2
	inFlightMax     = 64
	refusalsDefault = 16384
	waitingDefault  = 65536

	// callsMax bounds the calls of one batch: a long pipeline keeps the other
	// clients of the server waiting.
	callsMax = 256
	// scriptCountersMax bounds the counters of one call of the script, in which the
	// server serves nobody else: 128 take about 1 ms, of sliding_log 3 ms. The calls of
	// a batch follow each other in one pipeline, and others have their turn in between.
	scriptCountersMax = 128
	// givesMax is how many batches may wait until places in queues are no longer given
	// back.
	givesMax = 64

	dialDefault   = 200 * time.Millisecond // one caller's dial makes all others wait
	writeTimeout  = time.Second            // a connection without an answer for so long is given up
	keepAlive     = time.Second            // a silent connection is asked for a sign of life
	bufferBytes   = 64 << 10
	redirectsMax  = 3               // MOVED and ASK that one call follows
	refreshEvery  = 2 * time.Second // of what Sentinels or a Cluster say about who is where
	connsLog2Each = -1              // one connection per node: it is the pipeline that makes it fast
)

// Config says where Redis is and what to do when it is not. Zero fields mean the
// defaults.
type Config struct {
	// Addrs is host:port of the server, of the Sentinels, or of some nodes of a
	// Cluster.
	Addrs    []string
	Topology Topology
	// SentinelMaster is the name of the master that the Sentinels watch; empty
	// when there are none.
	SentinelMaster string

	Username, Password                 string // of an ACL user; without a user name the default one
	SentinelUsername, SentinelPassword string
	DB                                 int // not in a Cluster

	TLS           bool
	TLSCAFile     string // PEM; empty: the system's authorities
	TLSServerName string // in the certificate; empty: the host's name

	// KeyPrefix is the prefix of every name in Redis, for several installations that
	// share one.
	KeyPrefix string
	// Timeout is the longest that an ask waits; 100 ms, at most 2 s.
	Timeout time.Duration
	// Failure is the mode in which asks are answered without Redis: store.FailOpen,
	// store.Local or store.Closed; zero means FailOpen.
	Failure store.Mode
	// Local decides in mode store.Local.
	Local *simredis.Table

	// InFlight is how many batches of one lane may be under way; 2. Fewer make
	// larger batches, more make shorter waits.
	InFlight int
	// RefusalsMax is how many refusals each lane remembers; 16384. Negative: none.
	RefusalsMax int
	// WaitingMax is how many asks of each lane may wait; 65536. Further ones follow
	// the failure mode.
	WaitingMax int

	// Log is the log of component RedisClient.
	Log *slog.Logger

	dialTimeout time.Duration // 200 ms, but in tests
}

// ParseFailureMode returns the mode that a setting's word means.
func ParseFailureMode(word string) (store.Mode, error) {
	switch word {
	case "open":
		return store.FailOpen, nil
	case "local":
		return store.Local, nil
	case "closed":
		return store.Closed, nil
	}
	return 0, fmt.Errorf("must be one of open, local, closed, is %q", word)
}

// withDefaults fills zero fields in.
func (cfg Config) withDefaults() Config {
	cfg.Timeout = cmp.Or(cfg.Timeout, timeoutDefault)
	cfg.Failure = cmp.Or(cfg.Failure, store.FailOpen)
	cfg.InFlight = cmp.Or(cfg.InFlight, inFlightDefault)
	cfg.RefusalsMax = cmp.Or(cfg.RefusalsMax, refusalsDefault)
	cfg.WaitingMax = cmp.Or(cfg.WaitingMax, waitingDefault)
	cfg.dialTimeout = cmp.Or(cfg.dialTimeout, dialDefault)
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return cfg
}

// A Fault is one thing that is wrong with a configuration.
type Fault struct {
	Field   string // of Config
	Problem string // "is empty"
	Allowed string // what would do; may be empty
}

// Faults is all that is wrong with a configuration.
type Faults []Fault

// Error has a line for each fault.
func (f Faults) Error() string {
	lines := make([]string, len(f))
	for i, fault := range f {
		lines[i] = fault.Field + ": " + fault.Problem
		if fault.Allowed != "" {
			lines[i] += "; allowed: " + fault.Allowed
		}
	}
	return strings.Join(lines, "\n")
}

// Validate returns Faults, or nil.
func (cfg Config) Validate() error {
	cfg = cfg.withDefaults()
	var faults Faults
	fault := func(wrong bool, field, allowed, format string, args ...any) {
		if wrong {
			faults = append(faults, Fault{field, fmt.Sprintf(format, args...), allowed})
		}
	}
	fault(len(cfg.Addrs) == 0, "Addrs", "", "is empty")
	for _, addr := range cfg.Addrs {
		_, _, err := net.SplitHostPort(addr)
		fault(err != nil, "Addrs", "", "%q is not host:port", addr)
	}
	cfg.checkTopology(fault)
	fault(cfg.DB < 0, "DB", "", "must be at least 0, is %d", cfg.DB)
	fault(cfg.Username != "" && cfg.Password == "", "Password", "that of the user", "is missing")
	fault(!cfg.TLS && cfg.TLSCAFile != "", "TLSCAFile", "nothing", "is of no use without TLS")
	fault(!cfg.TLS && cfg.TLSServerName != "", "TLSServerName", "nothing", "is of no use without TLS")
	if err := checkPrefix(cfg.KeyPrefix); err != nil {
		fault(true, "KeyPrefix", "", "%v", err)
	}
	fault(cfg.Timeout < time.Millisecond || cfg.Timeout > timeoutMax, "Timeout", "", "must be 1ms to %v, is %v", timeoutMax, cfg.Timeout)
	fault(cfg.Failure < store.FailOpen || cfg.Failure > store.Closed, "Failure", "", "must be FailOpen, Local or Closed, is %v", cfg.Failure)
	fault(cfg.Failure == store.Local && cfg.Local == nil, "Local", "", "mode local needs a table")
	fault(cfg.InFlight < 1 || cfg.InFlight > inFlightMax, "InFlight", "", "must be 1 to %d, is %d", inFlightMax, cfg.InFlight)
	fault(cfg.WaitingMax < 1, "WaitingMax", "", "must be at least 1, is %d", cfg.WaitingMax)
	if faults == nil {
		return nil
	}
	return faults
}

// checkTopology notes what contradicts the topology.
func (cfg *Config) checkTopology(fault func(wrong bool, field, allowed, format string, args ...any)) {
	t := cfg.declared()
	fault(t > Sentinel, "Topology", "auto, single, cluster, sentinel", "is unknown")
	fault(t == Single && len(cfg.Addrs) > 1, "Addrs", "one address", "cannot be with a single server")
	fault(t == Cluster && cfg.DB != 0, "DB", "0", "cannot be with a Cluster")
	fault(t == Sentinel && cfg.SentinelMaster == "", "SentinelMaster", "the name of the master that the Sentinels watch", "is missing")
	if t == Sentinel {
		fault(cfg.SentinelUsername != "" && cfg.SentinelPassword == "", "SentinelPassword", "that of the user of the Sentinels", "is missing")
		return
	}
	const useless = "cannot be without Sentinels"
	fault(cfg.SentinelMaster != "", "SentinelMaster", "nothing", useless)
	fault(cfg.SentinelUsername != "", "SentinelUsername", "nothing", useless)
	fault(cfg.SentinelPassword != "", "SentinelPassword", "nothing", useless)
}

// tlsConfig returns nil for a connection without TLS.
func (cfg *Config) tlsConfig() (*tls.Config, error) {
	if !cfg.TLS {
		return nil, nil
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: cfg.TLSServerName}
	if cfg.TLSCAFile == "" {
		return c, nil
	}
	pem, err := os.ReadFile(cfg.TLSCAFile)
	if err != nil {
		return nil, fmt.Errorf("read TLSCAFile: %w", err)
	}
	c.RootCAs = x509.NewCertPool()
	if !c.RootCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("read TLSCAFile %s: no certificate in it", cfg.TLSCAFile)
	}
	return c, nil
}

// option is the configuration as the library takes it, for a topology that is known.
// No retries: a call without an answer may have run. Always pipelined: otherwise a
// deadline that passes would close the connection.
func (cfg *Config) option() (rueidis.ClientOption, error) {
	secure, err := cfg.tlsConfig()
	if err != nil {
		return rueidis.ClientOption{}, err
	}
	dialer := net.Dialer{Timeout: cfg.dialTimeout, KeepAlive: keepAlive}
	option := rueidis.ClientOption{
		InitAddress: cfg.Addrs, Dialer: dialer, TLSConfig: secure,
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
