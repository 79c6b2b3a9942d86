package config

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"weir/internal/net/admit"
	"weir/internal/net/loop"
	"weir/internal/program/service"
	"weir/proxy/http/session"
	"weir/proxy/targets/roster"
)

// Server has the settings of a proxy that is reachable from outside: TLS, health of the
// targets, bounds, the admin port, hand-over.
type Server struct {
	CertFile, KeyFile  string        // of the listener; empty: no TLS
	CAFile, ServerName string        // for https targets
	Roster             roster.Config // without Loops, Log and Reachable
	AdminPort          int           // port of the own endpoints; 0: the data port
	AdminBind          string        // address of the admin port
	AdminTLS           bool          // the admin port has TLS if the data port has
	HealthOnDataPort   bool          // with an admin port, health is answered at the data port, too
	Takeover           bool
	MemoryBudget       int64 // bytes

	MetricsAddr string // address of a port for metrics only; empty: none
	MetricsPath string // their path there
}

func (sv *Server) register(s *service.Settings, d *session.Settings, l *loop.Config) {
	noTarget, noPort := s.NoEffectWhen("TARGET_URL", noTargets), s.NoEffectWhen("ADMIN_PORT", "0")
	s.Add(service.SettingList{
		{Name: "TLS_CERT", Value: service.String(&sv.CertFile),
			Help: "PEM file of the certificate (chain) to serve with; read again when it changes; empty: no TLS"},
		{Name: "TLS_KEY", Value: service.String(&sv.KeyFile), Help: "PEM file of its key"},
		{Name: "TARGET_CA_FILE", Value: service.String(&sv.CAFile), NoEffect: noTarget,
			Help: "PEM file of the authorities that signed the certificates of https targets; empty: the system's"},
		{Name: "TARGET_TLS_SERVER_NAME", Value: service.String(&sv.ServerName), NoEffect: noTarget,
			Help: "server name (SNI) that the certificates of https targets must match; empty: the host of their URL"},
		{Name: "TARGET_HEALTH_PATH", Value: service.Func(&sv.Roster.CheckPath, "a path: /health", healthPath),
			NoEffect: noTarget,
			Help:     "path requested from every target as an active health check; empty: health follows from requests only"},
		{Name: "TARGET_HEALTH_INTERVAL", Default: "5s",
			Value:    service.Duration(&sv.Roster.CheckInterval, 10*time.Millisecond, timeMax),
			NoEffect: s.NoEffectWhen("TARGET_HEALTH_PATH", ""),
			Help:     "interval between two health checks; two failures in a row take a target out, two successes bring it back"},
		{Name: "TARGET_DNS_INTERVAL", Default: "5s", Value: service.Duration(&sv.Roster.LookupInterval, 0, timeMax),
			NoEffect: noTarget,
			Help: "interval between two lookups of each target's name, whose addresses become separate targets; 0: a name is " +
				"one target, and each connect looks it up"},
		{Name: "ADMIN_PORT", Default: "0", Value: service.Int(&sv.AdminPort, 0, 65535),
			Help: "port for the proxy's own endpoints; 0: the data port"},
		{Name: "ADMIN_BIND", Default: "127.0.0.1", Value: service.String(&sv.AdminBind), NoEffect: noPort,
			Help: "address that ADMIN_PORT listens on"},
		{Name: "ADMIN_TLS", Default: "true", Value: service.Bool(&sv.AdminTLS), NoEffect: noPort,
			Help: "true: ADMIN_PORT uses TLS when TLS_CERT is set; false: plain HTTP"},
		{Name: "HEALTH_ON_DATA_PORT", Default: "false", Value: service.Bool(&sv.HealthOnDataPort), NoEffect: noPort,
			Help: "with ADMIN_PORT, answer /actuator/health and /actuator/health/readiness on the data port too"},
		{Name: "PROMETHEUS_ADDR", Value: service.Func(&sv.MetricsAddr, "host:port, or :port for all addresses", address),
			Help: "address of a port that answers nothing but metrics, in addition to /metrics elsewhere; empty: none"},
		{Name: "PROMETHEUS_PATH", Default: "/metrics", Value: service.Func(&sv.MetricsPath, "a path: /metrics", healthPath),
			NoEffect: s.NoEffectWhen("PROMETHEUS_ADDR", ""), Help: "path of metrics there"},
		{Name: "TAKEOVER", Default: "false", Value: service.Bool(&sv.Takeover),
			Help: "take the port over from a running proxy, which then drains; BIND and ADMIN_PORT may differ"},
		{Name: "MEMORY_BUDGET", Default: "0", Value: service.Bytes(&sv.MemoryBudget, 0, 1<<50),
			Help: "memory use; from 88 % of it on, requests of the clients that hold most are ended, and beyond 92 % all are " +
				"refused with 503 if that does not help; 0: three quarters of the memory of the machine or container"},
		{Name: "MAX_CONNECTIONS_PER_IP", Default: "0", Value: service.Int(&l.PerAddressMax, 0, 1<<24),
			Help: "maximum number of connections from one client address (IPv6: /64); 0: no limit, since a load balancer may " +
				"carry all clients"},
		{Name: "BODY_MIN_RATE", Default: "240", Value: service.Bytes(&d.BodyRateMin, 0, 1<<30),
			Help: "minimum rate of a request's body over 10 s, in bytes per second; below: 408; 0: no limit; for a body by " +
				"HTTP/2 without a length only until its answer is passed on, then STREAM_TIMEOUT holds, as it does for a call of " +
				"gRPC whose messages come more slowly"},
		{Name: "STREAM_TIMEOUT", Default: "60s", Value: service.Duration(&d.StreamTimeout, time.Millisecond, timeMax),
			Help: "timeout between two pieces of a streamed answer, and between two bytes of a half-closed tunnel"},
		{Name: "TUNNEL_TIMEOUT", Default: "1h", Value: service.Duration(&d.TunnelTimeout, time.Millisecond, 30*timeMax),
			Help: "timeout between two bytes of an upgraded connection, in either direction"},
		{Name: "DRAIN_GRACE", Default: "2s", Value: service.Duration(&d.DrainGrace, 0, timeMax),
			Help: "how long idle client connections stay open when the proxy ends, so that requests already on their way are " +
				"answered; clients of HTTP/2 get GOAWAY in the first half of it"},
		{Name: "UPGRADES", Default: "websocket",
			Value: service.Func(&d.Upgrades, "names, comma separated; not h2c", upgrades),
			Help:  "protocols that clients may switch to, comma separated; empty: none"},
		{Name: "VIA_NAME", Value: service.Func(&d.Pseudonym, "letters, digits, - and .; off", viaName),
			Help: "the proxy's name in Via, which detects forwarding loops; empty: weir- and a random part; off: no Via, " +
				"since nginx by default compresses nothing for proxies, and CDN-Loop to detect loops"},
	})
}

func healthPath(text string) (string, error) {
	if text[0] != '/' || strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r >= 0x7f || r == '#' }) {
		return "", errors.New("does not begin with /, or has bytes that a path cannot have")
	}
	return text, nil
}

func viaName(text string) (string, error) {
	if !isToken(text) || strings.Contains(text, "/") {
		return "", fmt.Errorf("%q is not a name", text)
	}
	return text, nil
}

func upgrades(text string) (names []string, err error) {
	for _, name := range elements(strings.ToLower(text)) {
		if name == "h2c" || !isToken(name) {
			return nil, fmt.Errorf("%q is not supported", name)
		}
		names = append(names, name)
	}
	return names, nil
}

// isToken reports whether text is not empty and consists of letters, digits and a few
// symbols.
func isToken(text string) bool {
	return text != "" && !strings.ContainsFunc(text, func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("-._/", r))
	})
}

func (sv *Server) complete(s *service.Settings, d *session.Settings) error {
	if err := pairComplete(s, "TLS_CERT", "TLS_KEY"); err != nil {
		return err
	}
	sv.Roster.Named = sv.AdminPort != 0
	d.Via = d.Pseudonym != "off"
	if d.Pseudonym == "" || !d.Via {
		d.Pseudonym = fmt.Sprintf("weir-%06x", rand.Uint32N(1<<24))
	}
	if sv.MemoryBudget == 0 {
		sv.MemoryBudget = memoryThere() / 4 * 3
	}
	return nil
}

// address checks a host and a port to listen on.
func address(text string) (string, error) {
	if _, port, err := net.SplitHostPort(text); err != nil || !validPort(port) {
		return "", errors.New("is no address to listen on")
	}
	return text, nil
}

// pairComplete checks that a certificate and its key are both set or both empty.
func pairComplete(s *service.Settings, cert, key string) error {
	missing := key
	if s.Text(cert) == "" {
		missing = cert
	}
	return s.FaultIf((s.Text(cert) == "") != (s.Text(key) == ""), missing, "is missing",
		cert+" and "+key+" together, or neither")
}

// memoryThere returns the memory limit of the container, or the memory of the machine, in
// bytes. It returns 0 if unknown.
func memoryThere() int64 {
	there := int64(0)
	if text, err := os.ReadFile("/proc/meminfo"); err == nil {
		var kib int64
		if _, err := fmt.Sscanf(string(text), "MemTotal: %d kB", &kib); err == nil {
			there = kib << 10
		}
	}
	for _, file := range []string{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"} {
		text, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		if n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil && n > 0 &&
			(there == 0 || n < there) {
			there = n
		}
	}
	return there
}

// noteConnections notes a MAX_CONNECTIONS for which there are too few descriptors.
func (c *Config) noteConnections() {
	if free := admit.DescriptorsFree(); int64(c.loop.ConnectionsMax) > free {
		c.Notes = append(c.Notes, fmt.Sprintf(
			"MAX_CONNECTIONS=%d is above the %d descriptors that RLIMIT_NOFILE leaves for connections: raise the limit, or "+
				"clients are refused earlier", c.loop.ConnectionsMax, free))
	}
}
