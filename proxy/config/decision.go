package config

import (
	"errors"
	"net/netip"

	"weir/internal/service"
)

// Decision is the settings of the decision port.
type Decision struct {
	Port  int // 0: there is none
	Bind  string
	Token string // who has it may ask; empty: everybody who reaches the port
	Open  bool   // everybody who reaches the port may ask
}

// Local reports whether only this machine reaches the port.
func (d *Decision) Local() bool {
	addr, err := netip.ParseAddr(d.Bind)
	return d.Bind == "localhost" || err == nil && addr.Unmap().IsLoopback()
}

// register adds the settings to s.
func (d *Decision) register(s *service.Settings) {
	s.Int(&d.Port, "DECISION_PORT", 0, 0, 65535, "port on which sidecars and other proxies ask this one for decisions (8083 in examples); 0: none")
	s.String(&d.Bind, "DECISION_BIND", "127.0.0.1", "address that DECISION_PORT listens on; one that is not a loopback address needs DECISION_TOKEN or DECISION_OPEN")
	s.Token(&d.Token, "DECISION_TOKEN", "what askers show as Authorization: Bearer; empty: whoever reaches the port may ask; TRUSTED_PROXIES may describe requests to /check without it, and with a loopback DECISION_BIND this machine")
	s.Bool(&d.Open, "DECISION_OPEN", false, "true: without DECISION_TOKEN others than this machine may ask, too, as the network is trusted")
	s.NoEffect("DECISION_PORT", "0", "DECISION_BIND", "DECISION_TOKEN", "DECISION_OPEN")
}

// complete checks what the settings mean together.
func (d *Decision) complete(targets int) error {
	var all []error
	if d.Port == 0 && targets == 0 {
		all = append(all, &service.SettingError{Name: "TARGET_URL", Value: noTargets, Problem: "leaves nothing to do", Allowed: "URLs of targets, or none together with DECISION_PORT"})
	}
	if d.Port != 0 && d.Token == "" && !d.Open && !d.Local() {
		all = append(all, &service.SettingError{Name: "DECISION_BIND", Value: d.Bind, Problem: "lets other machines ask without a token",
			Allowed: "a loopback address, or any with DECISION_TOKEN, or with DECISION_OPEN=true"})
	}
	return errors.Join(all...)
}
