package config

import (
	"errors"
	"net/netip"
	"time"

	"weir/internal/net/http1"
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

	headBytes int64
	fields    int
	// AdmitUndescribed says that /check admits requests that cannot be described.
	AdmitUndescribed bool

	HoldMax time.Duration // how long leaky limits may hold an answer of /check
}

// Local reports whether the port is reachable only from this machine.
func (d *Decision) Local() bool {
	addr, err := netip.ParseAddr(d.Bind)
	return d.Bind == "localhost" || err == nil && addr.Unmap().IsLoopback()
}

// Head returns the bounds of a question's head.
func (d *Decision) Head() http1.Limits {
	return http1.Limits{HeadBytes: int(d.headBytes), Fields: d.fields}
}

func (d *Decision) register(s *service.Settings) {
	s.Int(&d.Port, "DECISION_PORT", 0, 0, 65535,
		"port on which sidecars and other proxies request decisions (8083 in examples); 0: none")
	s.String(&d.Bind, "DECISION_BIND", "127.0.0.1",
		"address that DECISION_PORT listens on; one that is not a loopback address needs DECISION_TOKEN, "+
			"DECISION_TLS_CLIENT_CA or DECISION_OPEN")
	s.Token(&d.Token, "DECISION_TOKEN",
		"token that askers send as Authorization: Bearer; empty: everybody who reaches the port may ask; TRUSTED_PROXIES, "+
			"and this machine with a loopback DECISION_BIND, may use /check without it")
	s.Bool(&d.Open, "DECISION_OPEN", false,
		"true: the network is trusted, and other machines may ask without DECISION_TOKEN")
	s.String(&d.CertFile, "DECISION_TLS_CERT", "",
		"PEM file of the certificate (chain) to serve DECISION_PORT with; read again when it changes; empty: no TLS")
	s.String(&d.KeyFile, "DECISION_TLS_KEY", "", "PEM file of its key")
	s.String(&d.ClientCAFile, "DECISION_TLS_CLIENT_CA", "",
		"PEM file of certificate authorities; askers need a certificate signed by one of them, or "+
			"DECISION_TOKEN; read at the start")
	s.Duration(&d.HoldMax, "DECISION_HOLD_MAX", 250*time.Millisecond, time.Millisecond, 10*time.Second,
		"how long /check holds an answer until a request's slot in a leaky limit is due; one whose slot "+
			"is later is refused; "+
			"keep it below the asker's timeout, after which the asker admits the request")
	s.Bytes(&d.headBytes, "DECISION_HEAD_MAX_BYTES", 64<<10, 1<<10, 1<<20,
		"maximum size of the head of a question, which has the fields of the described request; beyond: DECISION_UNDESCRIBED")
	s.Int(&d.fields, "DECISION_FIELDS_MAX", 500, 1, 10000,
		"maximum number of field lines of a question; beyond: DECISION_UNDESCRIBED")
	s.Word("DECISION_UNDESCRIBED", "admit", []string{"admit", "refuse"},
		"what /check does with requests that cannot be described, for example because their heads are too large: "+
			"admit lets clients "+
			"bypass the limits with such requests, as far as the asker accepts them; refuse answers 400 or 431",
		is(&d.AdmitUndescribed, "admit"))
	s.NoEffect("DECISION_PORT", "0", "DECISION_BIND", "DECISION_TOKEN", "DECISION_OPEN", "DECISION_TLS_CERT",
		"DECISION_TLS_KEY",
		"DECISION_TLS_CLIENT_CA", "DECISION_HOLD_MAX", "DECISION_HEAD_MAX_BYTES", "DECISION_FIELDS_MAX",
		"DECISION_UNDESCRIBED")
}

func (d *Decision) complete(targets int) error {
	var all []error
	if d.Port == 0 && targets == 0 {
		all = append(all, &service.SettingError{Name: "TARGET_URL", Value: noTargets, Problem: "leaves nothing to do",
			Allowed: "URLs of targets, or none together with DECISION_PORT"})
	}
	if d.Port != 0 && d.Token == "" && d.ClientCAFile == "" && !d.Open && !d.Local() {
		all = append(all, &service.SettingError{Name: "DECISION_BIND", Value: d.Bind,
			Problem: "lets other machines ask without authentication",
			Allowed: "a loopback address, or any with DECISION_TOKEN or DECISION_TLS_CLIENT_CA, or with DECISION_OPEN=true"})
	}
	if d.ClientCAFile != "" && d.CertFile == "" {
		all = append(all, &service.SettingError{Name: "DECISION_TLS_CLIENT_CA", Value: d.ClientCAFile,
			Problem: "requests client certificates without TLS",
			Allowed: "together with DECISION_TLS_CERT and DECISION_TLS_KEY"})
	}
	all = append(all, pairComplete("DECISION_TLS", d.CertFile, d.KeyFile))
	return errors.Join(all...)
}
