package main

import (
	"context"
	"crypto/tls"
	"strconv"
	"syscall"

	"weir/internal/service"
	"weir/proxy/admin"
	"weir/proxy/config"
	"weir/proxy/decision"
	"weir/proxy/wire"
)

// decide starts the decision port on its socket, if there is one, and follows its
// certificate until ctx ends.
func (s *sockets) decide(ctx context.Context, e *service.Env, c *config.Config, cfg *configuration) error {
	if s.decision == nil {
		return nil
	}
	secure, err := secureDecisions(ctx, e, c)
	if err != nil {
		return err
	}
	limits, err := keepLimits(ctx, e, c, cfg)
	if err != nil {
		return err
	}
	set := c.Session()
	port, err := decision.Start(decision.Config{
		Socket: s.decision, Secure: secure, Loop: c.Loop(), Store: cfg.store, Documents: []string{admin.ConfigName, admin.RulesName}, Quiet: cfg.memory() != nil,
		Access: decision.Access{Token: c.Decision.Token, Edit: e.Guard.Token, EditOpen: e.Guard.Open, Local: c.Decision.Local(), Open: c.Decision.Open,
			Verified: c.Decision.ClientCAFile != "" && !c.Decision.Open},
		Policy: cfg.policies.Policy, Trusts: set.Trusts, PreflightsApart: set.PreflightsApart, Style: set.Style, Pages: cfg.templates.Pages(),
		Limits: limits, RateLimit: c.RateLimit.Settings(set.Style.Families),
		Healthy: e.Health.Ready, EditTimeout: c.StoreTimeout(), DrainGrace: set.DrainGrace, DrainTimeout: c.DrainTimeout,
	})
	if err != nil {
		return err
	}
	s.port, cfg.port = port, port
	port.Register(e.Metrics)
	e.Logger("DecisionService").Info("Listening", "port", strconv.Itoa(c.Decision.Port), "addr", port.Addr())
	return nil
}

// keepLimits loads the limits for Envoy's rate limit service, and follows their files
// until ctx ends.
func keepLimits(ctx context.Context, e *service.Env, c *config.Config, cfg *configuration) (*decision.Limits, error) {
	limits, err := decision.NewLimits(c.RateLimit.Config, c.RateLimit.Merge, e.Logger("DecisionService"))
	if err == nil && c.RateLimit.Config != "" {
		e.OnReload(limits.Reload, "descriptors")
		go limits.Follow(ctx, cfg.store.Forgetful)
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
		return pair.Config(), nil
	}
	secure, err := pair.Verifying(c.Decision.ClientCAFile)
	if err != nil {
		return nil, fileFault("DECISION_TLS_CLIENT_CA", c.Decision.ClientCAFile, err)
	}
	return secure, nil
}

// drain closes the decision port and the front at the same time, and returns how many
// connections were cut.
func (s *sockets) drain(ctx context.Context, front *wire.Front) int {
	cut := make(chan int, 1)
	go func() {
		if s.port == nil {
			cut <- 0
			return
		}
		cut <- s.port.Drain(ctx)
	}()
	return front.Drain(ctx) + <-cut
}

// listening returns the listening sockets, for a successor.
func (s *sockets) listening(front *wire.Front) []syscall.Conn {
	all := front.Sockets()
	if l, ok := s.admin.(syscall.Conn); ok {
		all = append(all, l)
	}
	if s.port != nil {
		all = append(all, s.port.Socket())
	}
	return all
}
