package config

import (
	"errors"
	"net/netip"
	"strings"
	"time"

	"weir/internal/net/http1"
	"weir/internal/net/http2"
	"weir/internal/program/service"
)

// A Listener has the settings of a port for decisions.
type Listener struct {
	Port int // 0: there is none
	Bind string
	Path string // of a unix socket in place of the port; empty: none

	CertFile, KeyFile string // empty: no TLS
	ClientCAFile      string // authorities of askers' certificates; empty: none are requested
	ClientSAN         string // name that these certificates must have; empty: any
}

// DecisionPort has the settings of the decision port.
type DecisionPort struct {
	Listener
	GRPC  Listener // a second one with the same services
	Token string   // required of askers; empty: none is
	Open  bool     // no authentication is required

	Head http1.Limits // bounds of a question's head
	// AdmitUndescribed says that /check admits requests that cannot be described.
	AdmitUndescribed bool

	HoldMax time.Duration // how long leaky limits may hold an answer of /check

	Age, AgeGrace time.Duration // of a connection of HTTP/2, see port.Config
}

// HTTP2 returns the bounds of a connection of HTTP/2. The bound of glitches is high: when the store stalls, an asker
// cancels many calls at once.
func (d *DecisionPort) HTTP2() http2.Limits {
	return http2.Limits{Head: d.Head, GlitchBurst: 10_000, GlitchRate: 1000}
}

// Local reports whether the port is reachable only from this machine.
func (l *Listener) Local() bool {
	addr, err := netip.ParseAddr(l.Bind)
	return l.Path != "" || l.Bind == "localhost" || err == nil && addr.Unmap().IsLoopback()
}

func (d *DecisionPort) register(s *service.Settings) {
	s.Add(service.SettingList{
		{Name: "DECISION_PORT", Default: "0", Value: service.Int(&d.Port, 0, 65535),
			Help: "port on which sidecars and other proxies request decisions (8083 in examples); 0: none"},
	})
	s.AddWithNoEffect(s.NoEffectWhen("DECISION_PORT", "0"), service.SettingList{
		{Name: "DECISION_BIND", Default: "127.0.0.1", Value: service.String(&d.Bind),
			Help: "address that DECISION_PORT listens on; one that is not a loopback address needs DECISION_TOKEN, " +
				"DECISION_TLS_CLIENT_CA or DECISION_OPEN"},
		{Name: "DECISION_TOKEN", Value: service.BearerToken(&d.Token),
			Help: "token that askers send as Authorization: Bearer; empty: everybody who reaches the port may ask; " +
				"TRUSTED_PROXIES, and this machine with a loopback DECISION_BIND, may use /check without it"},
		{Name: "DECISION_OPEN", Default: "false", Value: service.Bool(&d.Open),
			Help: "true: the network is trusted, and other machines may ask without DECISION_TOKEN"},
		d.row("DECISION_TLS_CERT"), d.row("DECISION_TLS_KEY"), d.row("DECISION_TLS_CLIENT_CA"),
		d.row("DECISION_TLS_CLIENT_SAN"),
		{Name: "DECISION_HOLD_MAX", Default: "250ms", Value: service.Duration(&d.HoldMax, time.Millisecond, 10*time.Second),
			Help: "how long /check holds an answer until a request's slot in a leaky limit is due; one whose slot is later is " +
				"refused; keep it below the asker's timeout, after which the asker admits the request"},
		{Name: "GRPC_MAX_CONNECTION_AGE", Default: "24h", Value: service.Duration(&d.Age, 0, 365*24*time.Hour),
			Help: "maximum age of a connection of HTTP/2 to DECISION_PORT, plus or minus a tenth; it is then closed without " +
				"losing a request, so that a load balancer can distribute the asker's next one; 0: no limit"},
		{Name: "GRPC_MAX_CONNECTION_AGE_GRACE", Default: "1h", Value: service.Duration(&d.AgeGrace, 0, 365*24*time.Hour),
			Help: "how long requests may continue on a connection of maximum age; 0: until they end"},
		{Name: "DECISION_HEAD_MAX_BYTES", Default: "64KiB", Value: service.Bytes(&d.Head.HeadBytes, 1<<10, 1<<20),
			Help: "maximum size of the head of a question, which has the fields of the described request; beyond: " +
				"DECISION_UNDESCRIBED"},
		{Name: "DECISION_FIELDS_MAX", Default: "500", Value: service.Int(&d.Head.Fields, 1, 10000),
			Help: "maximum number of field lines of a question; beyond: DECISION_UNDESCRIBED"},
		{Name: "DECISION_UNDESCRIBED", Default: "admit",
			Value: service.Enum(&d.AdmitUndescribed, "admit, refuse", true, false),
			Help: "what /check does with requests that cannot be described, for example because their heads are too large: " +
				"admit lets clients bypass the limits with such requests if the asker accepts them; refuse answers 400 or 431"},
		{Name: "GRPC_PORT", Default: "0", Value: service.Int(&d.GRPC.Port, 0, 65535),
			Help: "another port that answers as DECISION_PORT does, with an address and a certificate of its own; 0: none"},
		{Name: "GRPC_UDS", Value: service.Func(&d.GRPC.Path, "the path of a socket: /run/weir.sock", socketPath),
			Help: "unix socket in place of GRPC_PORT, for askers on this machine; the permissions of its folder determine who " +
				"may connect; empty: none"},
	})
	s.AddWithNoEffect(func() string {
		if d.GRPC.Port != 0 || d.GRPC.Path != "" {
			return ""
		}
		return "while neither GRPC_PORT nor GRPC_UDS is set"
	}, service.SettingList{
		{Name: "GRPC_BIND", Default: "127.0.0.1", Value: service.String(&d.GRPC.Bind),
			Help: "address that GRPC_PORT listens on, as DECISION_BIND"},
		d.GRPC.row("GRPC_TLS_CERT"), d.GRPC.row("GRPC_TLS_KEY"), d.GRPC.row("GRPC_TLS_CLIENT_CA"),
		d.GRPC.row("GRPC_TLS_CLIENT_SAN"),
	})
}

// socketPath checks the path of a unix socket, which the system bounds.
func socketPath(text string) (string, error) {
	const bytesMax = 107
	if text[0] != '/' || len(text) > bytesMax {
		return "", errors.New("does not begin with /, or is too long for a socket")
	}
	return text, nil
}

// row returns the setting about TLS of that name, which begins with that of the port.
func (l *Listener) row(name string) service.Setting {
	prefix, about, _ := strings.Cut(name, "_TLS_")
	switch about {
	case "CERT":
		return service.Setting{Name: name, Value: service.String(&l.CertFile),
			Help: "PEM file of the certificate (chain) to serve " + prefix + "_PORT with; read again when it changes; empty: " +
				"no TLS"}
	case "KEY":
		return service.Setting{Name: name, Value: service.String(&l.KeyFile), Help: "PEM file of its key"}
	case "CLIENT_CA":
		also := ""
		if prefix == "GRPC" {
			also = ", also with DECISION_OPEN"
		}
		return service.Setting{Name: name, Value: service.String(&l.ClientCAFile),
			Help: "PEM file of certificate authorities; askers need a certificate signed by one of them, or DECISION_TOKEN" +
				also + "; read at the start"}
	}
	return service.Setting{Name: name, Value: service.String(&l.ClientSAN),
		Help: "DNS name or address that these certificates must be for; empty: any"}
}

func (d *DecisionPort) complete(s *service.Settings, targets int) error {
	return errors.Join(
		s.FaultIf(d.Port == 0 && targets == 0, "TARGET_URL", "leaves nothing to do",
			"URLs of targets, or none together with DECISION_PORT"),
		s.FaultIf(d.Port == 0 && d.GRPC.Port != 0, "GRPC_PORT", "is another port of DECISION_PORT, which is not set",
			"together with DECISION_PORT, which answers the same"),
		s.FaultIf(d.Port == 0 && d.GRPC.Path != "", "GRPC_UDS", "is a socket of DECISION_PORT, which is not set",
			"together with DECISION_PORT, which answers the same"),
		s.FaultIf(d.GRPC.Port != 0 && d.GRPC.Path != "", "GRPC_UDS", "is in place of GRPC_PORT, which is set",
			"one of them"),
		d.completeListener(s, "DECISION", &d.Listener), d.completeListener(s, "GRPC", &d.GRPC))
}

func (d *DecisionPort) completeListener(s *service.Settings, prefix string, l *Listener) error {
	open := l.Port != 0 && d.Token == "" && l.ClientCAFile == "" && !d.Open && !l.Local()
	cert, key, authorities := prefix+"_TLS_CERT", prefix+"_TLS_KEY", prefix+"_TLS_CLIENT_CA"
	return errors.Join(
		s.FaultIf(open, prefix+"_BIND", "lets other machines ask without authentication",
			"a loopback address, or any with DECISION_TOKEN or "+authorities+", or with DECISION_OPEN=true"),
		s.FaultIf(l.ClientCAFile != "" && l.CertFile == "", authorities,
			"requests client certificates without TLS", "together with "+cert+" and "+key),
		s.FaultIf(l.ClientSAN != "" && l.ClientCAFile == "", prefix+"_TLS_CLIENT_SAN",
			"is a name in certificates that are not requested", "together with "+authorities),
		pairComplete(s, cert, key))
}
