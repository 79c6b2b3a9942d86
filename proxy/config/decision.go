package config

import (
	"errors"
	"net/netip"
	"time"

	"weir/internal/net/http1"
	"weir/internal/net/http2"
	"weir/internal/program/service"
)

// Decision has the settings of the decision port.
type Decision struct {
	Port  int // 0: there is none
	Bind  string
	Token string // required of askers; empty: none is
	Open  bool   // no authentication is required

	CertFile, KeyFile string // empty: no TLS
	ClientCAFile      string // authorities of askers' certificates; empty: none are requested

	Head http1.Limits // bounds of a question's head
	// AdmitUndescribed says that /check admits requests that cannot be described.
	AdmitUndescribed bool

	HoldMax time.Duration // how long leaky limits may hold an answer of /check

	Age, AgeGrace time.Duration // of a connection of HTTP/2, see port.Config
}

// HTTP2 returns the bounds of a connection of HTTP/2. Glitches are bounded loosely: when the store stalls, an asker
// gives up many calls at once.
func (d *Decision) HTTP2() http2.Limits {
	return http2.Limits{Head: d.Head, GlitchBurst: 10_000, GlitchRate: 1000}
}

// Local reports whether the port is reachable only from this machine.
func (d *Decision) Local() bool {
	addr, err := netip.ParseAddr(d.Bind)
	return d.Bind == "localhost" || err == nil && addr.Unmap().IsLoopback()
}

func (d *Decision) register(s *service.Settings) {
	s.Add(service.Table{
		{Name: "DECISION_PORT", Default: "0", Value: service.Int(&d.Port, 0, 65535),
			Help: "port on which sidecars and other proxies request decisions (8083 in examples); 0: none"},
	})
	s.AddWithNoEffect(s.NoEffectWhen("DECISION_PORT", "0"), service.Table{
		{Name: "DECISION_BIND", Default: "127.0.0.1", Value: service.Text(&d.Bind),
			Help: "address that DECISION_PORT listens on; one that is not a loopback address needs DECISION_TOKEN, " +
				"DECISION_TLS_CLIENT_CA or DECISION_OPEN"},
		{Name: "DECISION_TOKEN", Value: service.Token(&d.Token),
			Help: "token that askers send as Authorization: Bearer; empty: everybody who reaches the port may ask; " +
				"TRUSTED_PROXIES, and this machine with a loopback DECISION_BIND, may use /check without it"},
		{Name: "DECISION_OPEN", Default: "false", Value: service.Bool(&d.Open),
			Help: "true: the network is trusted, and other machines may ask without DECISION_TOKEN"},
		{Name: "DECISION_TLS_CERT", Value: service.Text(&d.CertFile),
			Help: "PEM file of the certificate (chain) to serve DECISION_PORT with; read again when it changes; empty: no TLS"},
		{Name: "DECISION_TLS_KEY", Value: service.Text(&d.KeyFile), Help: "PEM file of its key"},
		{Name: "DECISION_TLS_CLIENT_CA", Value: service.Text(&d.ClientCAFile),
			Help: "PEM file of certificate authorities; askers need a certificate signed by one of them, or DECISION_TOKEN; " +
				"read at the start"},
		{Name: "DECISION_HOLD_MAX", Default: "250ms", Value: service.Duration(&d.HoldMax, time.Millisecond, 10*time.Second),
			Help: "how long /check holds an answer until a request's slot in a leaky limit is due; one whose slot is later is " +
				"refused; keep it below the asker's timeout, after which the asker admits the request"},
		{Name: "GRPC_MAX_CONNECTION_AGE", Default: "24h", Value: service.Duration(&d.Age, 0, 365*24*time.Hour),
			Help: "how old a connection of HTTP/2 to DECISION_PORT becomes, give or take a tenth, so that askers connect anew " +
				"and a balancer in front spreads them; no request is lost; 0: no limit"},
		{Name: "GRPC_MAX_CONNECTION_AGE_GRACE", Default: "1h", Value: service.Duration(&d.AgeGrace, 0, 365*24*time.Hour),
			Help: "how long the calls on a connection that old may go on; 0: until they end"},
		{Name: "DECISION_HEAD_MAX_BYTES", Default: "64KiB", Value: service.Bytes(&d.Head.HeadBytes, 1<<10, 1<<20),
			Help: "maximum size of the head of a question, which has the fields of the described request; beyond: " +
				"DECISION_UNDESCRIBED"},
		{Name: "DECISION_FIELDS_MAX", Default: "500", Value: service.Int(&d.Head.Fields, 1, 10000),
			Help: "maximum number of field lines of a question; beyond: DECISION_UNDESCRIBED"},
		{Name: "DECISION_UNDESCRIBED", Default: "admit",
			Value: service.OneOf(&d.AdmitUndescribed, "admit, refuse", true, false),
			Help: "what /check does with requests that cannot be described, for example because their heads are too large: " +
				"admit lets clients bypass the limits with such requests, as far as the asker accepts them; refuse answers 400 " +
				"or 431"},
	})
}

func (d *Decision) complete(s *service.Settings, targets int) error {
	open := d.Port != 0 && d.Token == "" && d.ClientCAFile == "" && !d.Open && !d.Local()
	return errors.Join(
		s.FaultIf(d.Port == 0 && targets == 0, "TARGET_URL", "leaves nothing to do",
			"URLs of targets, or none together with DECISION_PORT"),
		s.FaultIf(open, "DECISION_BIND", "lets other machines ask without authentication",
			"a loopback address, or any with DECISION_TOKEN or DECISION_TLS_CLIENT_CA, or with DECISION_OPEN=true"),
		s.FaultIf(d.ClientCAFile != "" && d.CertFile == "", "DECISION_TLS_CLIENT_CA",
			"requests client certificates without TLS", "together with DECISION_TLS_CERT and DECISION_TLS_KEY"),
		pairComplete(s, "DECISION_TLS_CERT", "DECISION_TLS_KEY"))
}
