package main

import (
	"context"
	"net"
	"strconv"
	"syscall"

	"weir/proxy/ask/port"
	"weir/proxy/ask/xds"
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
	first, err := p.decisionListener(ctx, "DECISION", &c.Decision.Listener, p.socks.decision)
	if err != nil {
		return err
	}
	var further []port.Listener
	if p.socks.grpc != nil {
		second, err := p.decisionListener(ctx, "GRPC", &c.Decision.GRPC, p.socks.grpc)
		if err != nil {
			return err
		}
		further = append(further, second)
	}
	if p.descriptors, err = p.keepLimits(ctx); err != nil {
		return err
	}
	set := c.Session()
	p.port, err = port.Start(port.Config{
		Listener: first, Further: further, Loop: c.DecisionLoop(), Head: c.Decision.Head, Store: p.store,
		PerSecond: p.perSecond,
		Documents: []string{admin.ConfigName, admin.RulesName}, Local: !p.shared(),
		Limit:  func() []byte { return p.limits.Active().AppendJSON(nil) },
		Policy: p.policies.Policy, Trusts: set.Trusts, PreflightsApart: set.PreflightsApart, HoldMax: c.Decision.HoldMax,
		AdmitUndescribed: c.Decision.AdmitUndescribed, Log: e.Logger("DecisionService"), Style: set.Style,
		Pages: p.templates.Pages(),
		HTTP2: c.Decision.HTTP2(), Age: c.Decision.Age, AgeGrace: c.Decision.AgeGrace,
		Limits: p.descriptors, RateLimit: c.RateLimit.Settings(set.Style.LimitFields), Statsd: c.Statsd.Config(),
		NeedsLimits: c.XDS.Used && !c.XDS.Start, NeedsDomain: c.RateLimit.Needed,
		Healthy: e.Health.Ready, EditTimeout: c.StoreTimeout(),
		DrainGrace: set.DrainGrace, DrainTimeout: c.DrainTimeout,
	})
	if err != nil {
		return err
	}
	p.port.Register(e.Metrics)
	e.Logger("DecisionService").Info("Listening", "port", strconv.Itoa(c.Decision.Port), "addr", p.port.Addr())
	if p.socks.grpc != nil {
		e.Logger("DecisionService").Info("Listening", "port", strconv.Itoa(c.Decision.GRPC.Port), "addr",
			p.socks.grpc.Addr())
	}
	return nil
}

// keepLimits loads the limits for Envoy's rate limit service, and follows their files
// until ctx ends.
func (p *proxy) keepLimits(ctx context.Context) (*port.Limits, error) {
	files := p.config.LimitFiles()
	limits, err := port.NewLimits(files, p.Logger("DecisionService"))
	if err != nil {
		return nil, err
	}
	limits.OnChange = p.forgetRefusals
	if files.Path != "" {
		p.OnReload(limits.Reload, "descriptors")
		go limits.Follow(ctx)
	}
	if p.config.XDS.Used {
		err = p.followServer(ctx, limits)
	}
	return limits, err
}

// followServer puts the limits of an xDS server in force until ctx ends.
func (p *proxy) followServer(ctx context.Context, limits *port.Limits) error {
	cfg, err := p.config.XDS.Client()
	if err != nil {
		return err
	}
	cfg.Log = p.Logger("DecisionService")
	cfg.Put = limits.Put
	client := xds.New(cfg)
	client.Register(p.Metrics)
	go client.Run(ctx)
	return nil
}

// decisionListener returns a listener of the decision port on its socket, with the certificate that its
// settings name, which it follows until ctx ends. prefix is DECISION or GRPC.
func (p *proxy) decisionListener(ctx context.Context, prefix string, l *config.Listener, socket net.Listener) (
	made port.Listener, err error) {
	pair, err := keepPair(ctx, p.Env, decisionPair(p.config, prefix, l))
	if err != nil {
		return made, err
	}
	if pair != nil {
		made.Secure = pair.HTTP2()
	}
	if l.ClientCAFile != "" {
		if made.Secure, err = pair.Verifying(l.ClientCAFile, l.ClientSAN); err != nil {
			return made, fileFault(prefix+"_TLS_CLIENT_CA", l.ClientCAFile, err)
		}
	}
	d, guard := &p.config.Decision, p.Env.Guard
	verified := l.ClientCAFile != "" && !(d.Open && l == &d.Listener)
	made.Socket = socket
	made.Access = port.AccessPolicy{Token: d.Token, Edit: guard.Token, EditOpen: guard.Open, Local: l.Local(),
		Unix: l.Path != "", Open: d.Open && !verified, Port: l.Port, Secure: made.Secure != nil, Verified: verified}
	return made, nil
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
	for _, l := range []net.Listener{p.socks.admin, p.socks.metrics} {
		if l, ok := l.(syscall.Conn); ok {
			all = append(all, l)
		}
	}
	if p.port != nil {
		all = append(all, p.port.Sockets()...)
	}
	return all
}
