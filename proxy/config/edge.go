package config

import (
	"fmt"
	"math/rand/v2"
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

// Edge has the settings of a proxy that is reachable from outside: TLS, health of the
// targets, bounds, the admin port, hand-over.
type Edge struct {
	CertFile, KeyFile  string        // of the listener; empty: no TLS
	CAFile, ServerName string        // for https targets
	Roster             roster.Config // without Loops, Log and Reachable
	AdminPort          int           // port of the own endpoints; 0: the data port
	AdminBind          string        // address of the admin port
	AdminTLS           bool          // the admin port has TLS if the data port has
	HealthHere         bool          // with an admin port, health is answered at the data port, too
	Takeover           bool
	MemoryBudget       int64 // bytes
}

func (e *Edge) register(s *service.Settings, d *session.Settings, l *loop.Config) {
	s.String(&e.CertFile, "TLS_CERT", "",
		"PEM file of the certificate (chain) to serve with; read again when it changes; empty: no TLS")
	s.String(&e.KeyFile, "TLS_KEY", "", "PEM file of its key")
	s.String(&e.CAFile, "TARGET_CA_FILE", "",
		"PEM file of the authorities that signed the certificates of https targets; empty: the system's")
	s.String(&e.ServerName, "TARGET_TLS_SERVER_NAME", "",
		"server name (SNI) that the certificates of https targets must match; empty: the host of their URL")
	s.Func("TARGET_HEALTH_PATH", "",
		"path requested from every target as an active health check; empty: health follows from requests only",
		"a path: /health", e.setHealthPath)
	s.Duration(&e.Roster.CheckInterval, "TARGET_HEALTH_INTERVAL", 5*time.Second, 10*time.Millisecond, timeMax,
		"interval between two health checks; two failures in a row take a target out, two successes bring it back")
	s.Duration(&e.Roster.LookupInterval, "TARGET_DNS_INTERVAL", 5*time.Second, 0, timeMax,
		"interval between two lookups of each target's name, whose addresses become separate targets; 0: a name is one "+
			"target, and each connect looks it up")
	s.Int(&e.AdminPort, "ADMIN_PORT", 0, 0, 65535, "port for the proxy's own endpoints; 0: the data port")
	s.String(&e.AdminBind, "ADMIN_BIND", "127.0.0.1", "address that ADMIN_PORT listens on")
	s.Bool(&e.AdminTLS, "ADMIN_TLS", true, "true: ADMIN_PORT uses TLS when TLS_CERT is set; false: plain HTTP")
	s.Bool(&e.HealthHere, "HEALTH_ON_DATA_PORT", false,
		"with ADMIN_PORT, answer /actuator/health and /actuator/health/readiness on the data port too")
	s.Bool(&e.Takeover, "TAKEOVER", false,
		"take the port over from a running proxy, which then drains; BIND and ADMIN_PORT may differ")
	s.Bytes(&e.MemoryBudget, "MEMORY_BUDGET", 0, 0, 1<<50,
		"memory use; from 88 % of it on, requests of the clients that hold most are ended, and beyond 92 % all are "+
			"refused with 503 if that does not help; 0: three quarters of the memory of the machine or container")
	s.Int(&l.PerAddressMax, "MAX_CONNECTIONS_PER_IP", 0, 0, 1<<24,
		"maximum number of connections from one client address (IPv6: /64); 0: no limit, since a load balancer "+
			"may carry all clients")
	s.Bytes(&d.BodyRateMin, "BODY_MIN_RATE", 240, 0, 1<<30,
		"minimum rate of a request's body over 10 s, in bytes per second; below: 408; 0: no limit")
	s.Duration(&d.StreamTimeout, "STREAM_TIMEOUT", 60*time.Second, time.Millisecond, timeMax,
		"timeout between two pieces of a streamed answer, and between two bytes of a half-closed tunnel")
	s.Duration(&d.TunnelTimeout, "TUNNEL_TIMEOUT", time.Hour, time.Millisecond, 30*timeMax,
		"timeout between two bytes of an upgraded connection, in either direction")
	s.Duration(&d.DrainGrace, "DRAIN_GRACE", 2*time.Second, 0, timeMax,
		"how long idle client connections stay open when the proxy ends, so that requests already on their way are answered")
	s.Func("UPGRADES", "websocket", "protocols that clients may switch to, comma separated; empty: none",
		"names, comma separated; not h2c", parsed(&d.Upgrades, upgrades))
	s.Func("VIA_NAME", "", "the proxy's name in Via, which detects forwarding loops; empty: weir- and a random part; "+
		"off: no Via, since nginx by default compresses nothing for proxies, and "+
		"CDN-Loop to detect loops", "letters, digits, - and .; off", func(text string) error {
		if d.Pseudonym = text; !isToken(text) || strings.Contains(text, "/") {
			return fmt.Errorf("%q is not a name", text)
		}
		return nil
	})
}

func (e *Edge) setHealthPath(text string) error {
	if text[0] != '/' || strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r >= 0x7f || r == '#' }) {
		return fmt.Errorf("does not begin with /, or has bytes that a path cannot have")
	}
	e.Roster.CheckPath = text
	return nil
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

func (e *Edge) complete(d *session.Settings) error {
	if err := pairComplete("TLS", e.CertFile, e.KeyFile); err != nil {
		return err
	}
	e.Roster.Named = e.AdminPort != 0
	d.Via = d.Pseudonym != "off"
	if d.Pseudonym == "" || !d.Via {
		d.Pseudonym = fmt.Sprintf("weir-%06x", rand.Uint32N(1<<24))
	}
	if e.MemoryBudget == 0 {
		e.MemoryBudget = memoryThere() / 4 * 3
	}
	return nil
}

// pairComplete checks that a certificate and its key are both set or both empty.
func pairComplete(prefix, cert, key string) error {
	if (cert == "") == (key == "") {
		return nil
	}
	missing := prefix + "_KEY"
	if cert == "" {
		missing = prefix + "_CERT"
	}
	return &service.SettingError{Name: missing, Problem: "is missing", Allowed: prefix + "_CERT and " + prefix +
		"_KEY together, or neither"}
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
