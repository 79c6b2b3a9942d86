package config

import (
	"errors"
	"net"
	"strings"
	"time"

	"weir/internal/program/certs"
	"weir/internal/program/service"
	"weir/proxy/ask/xds"
)

// XDS has the settings of limits from an xDS server, with the names that envoyproxy/ratelimit uses.
type XDS struct {
	Used  bool // limits are from a server
	Start bool // the decision port is healthy before it has sent some

	useTLS                  bool
	certFile, keyFile       string
	authorities, serverName string
	client                  xds.Config
}

func (x *XDS) register(s *service.Settings) {
	c := &x.client
	s.Add(service.SettingList{
		{Name: "CONFIG_TYPE", Default: "FILE", Value: service.Enum(&x.Used, "FILE, GRPC_XDS_SOTW", false, true),
			NoEffect: s.NoEffectWhen("DECISION_PORT", "0"),
			Help: "where the limits for Envoy's rate limit service come from: RATELIMIT_CONFIG, or an xDS server, such as Envoy " +
				"Gateway"},
	})
	s.AddWithNoEffect(s.NoEffectWhen("CONFIG_TYPE", "FILE"), service.SettingList{
		{Name: "CONFIG_GRPC_XDS_SERVER_URL", Default: "localhost:18000",
			Value: service.Func(&c.Server, "host:port", hostPort), Help: "address of the xDS server"},
		{Name: "CONFIG_GRPC_XDS_NODE_ID", Default: "default", Value: service.String(&c.Node),
			Help: "id of this proxy for the xDS server"},
		{Name: "CONFIG_GRPC_XDS_NODE_METADATA", Value: service.Func(&c.Metadata, "key=value, comma separated", pairs("=")),
			Help: "metadata for the xDS server"},
		{Name: "CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS", Value: service.Hidden(
			service.Func(&c.Fields, "name:value, comma separated", pairs(":"))),
			Help: "further fields of requests to the xDS server"},
		{Name: "CONFIG_GRPC_XDS_SERVER_USE_TLS", Default: "false", Value: service.Bool(&x.useTLS),
			Help: "connect to the xDS server with TLS"},
		{Name: "CONFIG_GRPC_XDS_SERVER_TLS_CACERT", Value: service.String(&x.authorities),
			Help: "PEM file of the authorities that signed its certificate; empty: the system's"},
		{Name: "CONFIG_GRPC_XDS_SERVER_TLS_SAN", Value: service.String(&x.serverName),
			Help: "name in its certificate; empty: the host's"},
		{Name: "CONFIG_GRPC_XDS_CLIENT_TLS_CERT", Value: service.String(&x.certFile),
			Help: "PEM file of the certificate to show to it; read again for each connection; empty: none"},
		{Name: "CONFIG_GRPC_XDS_CLIENT_TLS_KEY", Value: service.String(&x.keyFile), Help: "PEM file of its key"},
		{Name: "XDS_CLIENT_BACKOFF_INITIAL_INTERVAL", Default: "10s",
			Value: service.Duration(&c.BackoffMin, time.Millisecond, timeMax),
			Help: "wait before connecting to the xDS server again, or refusing a configuration of it; doubled after each " +
				"failure, and shortened by a random part, at most half"},
		{Name: "XDS_CLIENT_BACKOFF_MAX_INTERVAL", Default: "1m",
			Value: service.Duration(&c.BackoffMax, time.Millisecond, timeMax), Help: "the longest such wait"},
		{Name: "XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES", Default: "8MiB", Value: service.Bytes(&c.MessageBytesMax, 1<<10, 1<<30),
			Help: "maximum size of a message of the xDS server"},
		{Name: "FORCE_START_WITHOUT_INITIAL_CONFIG", Default: "false", Value: service.Bool(&x.Start),
			Help: "true: DECISION_PORT is healthy before the xDS server has sent limits, unless " +
				"HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED is set"},
	})
}

func (x *XDS) complete(s *service.Settings) error {
	const withTLS = "together with CONFIG_GRPC_XDS_SERVER_USE_TLS=true"
	return errors.Join(
		s.FaultIf(x.Used && s.Text("RATELIMIT_CONFIG") != "", "RATELIMIT_CONFIG",
			"cannot be used with CONFIG_TYPE=GRPC_XDS_SOTW", "nothing, or CONFIG_TYPE=FILE"),
		s.FaultIf(x.Used && !x.useTLS && x.authorities != "", "CONFIG_GRPC_XDS_SERVER_TLS_CACERT",
			"has no effect without TLS", withTLS),
		s.FaultIf(x.Used && !x.useTLS && x.certFile != "", "CONFIG_GRPC_XDS_CLIENT_TLS_CERT",
			"has no effect without TLS", withTLS),
		pairComplete(s, "CONFIG_GRPC_XDS_CLIENT_TLS_CERT", "CONFIG_GRPC_XDS_CLIENT_TLS_KEY"))
}

// Client returns the configuration of the client without Put and Log. The error is a *service.SettingError.
func (x *XDS) Client() (xds.Config, error) {
	cfg := x.client
	if !x.useTLS {
		return cfg, nil
	}
	secure, err := certs.Client(x.authorities, x.serverName)
	if err != nil {
		return cfg, &service.SettingError{Name: "CONFIG_GRPC_XDS_SERVER_TLS_CACERT", Value: x.authorities,
			Problem: "cannot be used: " + err.Error(), Allowed: "a PEM file of certificates"}
	}
	if x.certFile != "" && x.keyFile != "" {
		if err = certs.PresentCertificate(secure, x.certFile, x.keyFile); err != nil {
			return cfg, &service.SettingError{Name: "CONFIG_GRPC_XDS_CLIENT_TLS_CERT", Value: x.certFile,
				Problem: "cannot be used: " + err.Error(), Allowed: "a PEM certificate, and its key"}
		}
	}
	secure.NextProtos = nil // those of HTTP/2 are added
	cfg.TLS = secure
	return cfg, nil
}

func hostPort(text string) (string, error) {
	if host, port, err := net.SplitHostPort(text); err != nil || host == "" || !validPort(port) ||
		strings.ContainsAny(host, "/@?#") {
		return "", errors.New("is not host:port")
	}
	return text, nil
}

// pairs reads a list of names and values with a separator between them.
func pairs(separator string) func(string) (map[string]string, error) {
	return func(text string) (map[string]string, error) {
		all := make(map[string]string)
		for _, one := range elements(text) {
			name, value, found := strings.Cut(one, separator)
			if name = strings.TrimSpace(name); !found || name == "" {
				return nil, errors.New("has an element without a name and a value")
			}
			all[name] = strings.TrimSpace(value)
		}
		return all, nil
	}
}
