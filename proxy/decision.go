package main

import (
	"context"
	"crypto/tls"
	"strconv"
	"syscall"

	"weir/internal/program/service"
	"weir/proxy/ask/port"
	"weir/proxy/config"
	"weir/proxy/control/admin"
)

// decide starts the decision port on its socket, if there is one, and follows its
// certificate until ctx ends.
func (p *proxy) decide(ctx context.Context) error {
	if p.socks.decision == nil {
		return nil
	}
	c, e := p.config, p.Env
	secure, err := secureDecisions(ctx, e, c)
	if err != nil {
		return err
	}
	limits, err := p.keepLimits(ctx)
	if err != nil {
		return err
	}
	set := c.Session()
	p.port, err = port.Start(port.Config{
		Socket: p.socks.decision, Secure: secure, Loop: c.DecisionLoop(), Head: c.Decision.Head, Store: p.store,
		Documents: []string{admin.ConfigName, admin.RulesName}, Local: !p.shared(),
		Limit: func() []byte { return p.limits.Active().AppendJSON(nil) },
		Access: port.Access{Token: c.Decision.Token, Edit: e.Guard.Token, EditOpen: e.Guard.Open,
			Local: c.Decision.Local(), Open: c.Decision.Open,
			Port: c.Decision.Port, Secure: secure != nil, Verified: c.Decision.ClientCAFile != "" && !c.Decision.Open},
		Policy: p.policies.Policy, Trusts: set.Trusts, PreflightsApart: set.PreflightsApart, HoldMax: c.Decision.HoldMax,
		AdmitUndescribed: c.Decision.AdmitUndescribed, Log: e.Logger("DecisionService"), Style: set.Style,
		Pages: p.templates.Pages(),
		HTTP2: c.Decision.HTTP2(), Age: c.Decision.Age, AgeGrace: c.Decision.AgeGrace,
		Limits: limits, RateLimit: c.RateLimit.Settings(set.Style.Families), NeedsLimits: c.RateLimit.Needed,
		Healthy: e.Health.Ready, EditTimeout: c.StoreTimeout(), DrainGrace: set.DrainGrace, DrainTimeout: c.DrainTimeout,
	})
	if err != nil {
		return err
	}
	p.port.Register(e.Metrics)
	e.Logger("DecisionService").Info("Listening", "port", strconv.Itoa(c.Decision.Port), "addr", p.port.Addr())
	return nil
}

// keepLimits loads the limits for Envoy's rate limit service, and follows their files
// until ctx ends.
func (p *proxy) keepLimits(ctx context.Context) (*port.Limits, error) {
	files := p.config.RateLimit
	limits, err := port.NewLimits(files.Config, files.Merge, p.Logger("DecisionService"))
	if err == nil && files.Config != "" {
		p.OnReload(limits.Reload, "descriptors")
		go limits.Follow(ctx, p.store.ForgetRefusals)
	}
	return limits, err
}

// secureDecisions returns the TLS configuration of the decision port, or nil if it has
// none.
func secureDecisions(ctx context.Context, e *service.Env, c *config.Config) (*tls.Config, error) {
	pair, err := keepPair(ctx, e, decisionPair(c))
	switch {
	case pair == nil:
		return nil, err
	case c.Decision.ClientCAFile == "":
		return pair.HTTP2(), nil
	}
	secure, err := pair.Verifying(c.Decision.ClientCAFile)
	if err != nil {
		return nil, fileFault("DECISION_TLS_CLIENT_CA", c.Decision.ClientCAFile, err)
	}
	return secure, nil
}

// drain closes the decision port and the server at the same time, and returns how many
// connections were cut.
func (p *proxy) drain(ctx context.Context) int {
	cut := make(chan int, 1)
	go func() {
		if p.port == nil {
			cut <- 0
			return
		}
		cut <- p.port.Drain(ctx)
	}()
	return p.server.Drain(ctx) + <-cut
}

// listening returns the listening sockets, for a successor.
func (p *proxy) listening() []syscall.Conn {
	all := p.server.Sockets()
	if l, ok := p.socks.admin.(syscall.Conn); ok {
		all = append(all, l)
	}
	if p.port != nil {
		all = append(all, p.port.Socket())
	}
	return all
}
