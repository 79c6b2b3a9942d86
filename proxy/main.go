// Proxy is a rate-limiting HTTP proxy. It forwards requests to the targets as far as
// their limits allow and answers the others with 429.
package main

import (
	"cmp"
	"context"

	"weir/internal/service"
	"weir/proxy/admin"
	"weir/proxy/config"
	"weir/proxy/store/simredis"
	"weir/proxy/wire"
)

func main() {
	var c config.Config
	service.Main(service.Program{
		Name: "proxy", LogName: "Proxy", About: "a rate-limiting HTTP proxy", Port: 8082,
		File: "RULES_FILE", Reloads: []string{"rules", "clients", "certificates"}, Settings: c.Register,
		Check: func() error { return check(&c) },
		Print: c.PostgresSchema,
		Run:   func(ctx context.Context, e *service.Env) error { return run(ctx, e, &c) },
	})
}

// run serves until ctx ends, then drains. The caller has called check.
func run(ctx context.Context, e *service.Env, c *config.Config) error {
	for _, note := range c.Notes {
		e.Logger("Proxy").Warn(note)
	}
	e.Guard.Fronted, c.Adaptive.Token = c.TrustsLoopback(), cmp.Or(c.Adaptive.Token, e.Guard.Token)
	local, err := simredis.NewStore(simredis.Config{KeysMax: c.KeysMax})
	if err != nil {
		return err
	}
	defer local.Close()
	decides, err := connect(e, c, local)
	if err != nil {
		return err
	}
	if decides != local {
		defer decides.Close()
	}
	targets, err := newTargets(c)
	if err != nil {
		return err
	}
	taken, err := takeOver(ctx, e, c)
	if err != nil {
		return err
	}
	defer taken.Close() // no effect once the predecessor has yielded the sockets
	templates, err := admin.NewTemplates(c.Templates)
	if err != nil {
		return err
	}
	targets.inherit(e, taken).Restore(&local.Documents)
	cfg, err := keepConfiguration(ctx, e, c, decides, templates)
	if err != nil {
		return err
	}
	cfg.targets = targets
	if err := cfg.openDeferral(e, c, taken != nil); err != nil {
		return err
	}
	socks, err := openSockets(e, c, taken)
	if err != nil {
		return err
	}
	beside, stop := context.WithCancel(context.WithoutCancel(ctx)) // ends when all connections have ended
	defer stop()
	access, err := openAccess(e, c)
	if err == nil {
		err = socks.decide(beside, e, c, cfg)
	}
	if err != nil {
		socks.close()
		return err
	}
	front, err := serve(beside, e, c, socks, wire.Config{Store: decides, Local: local, Access: access}, cfg)
	if err != nil {
		socks.close()
		return err
	}
	return live(ctx, e, front, socks, cfg)
}

// live waits until ctx ends or a successor takes over, and drains.
func live(ctx context.Context, e *service.Env, front *wire.Front, socks *sockets, cfg *configuration) error {
	log := e.Logger("Proxy")
	if err := socks.succeed(e, front); err != nil {
		socks.drain(ctx, front)
		return err
	}
	taken, withdraw := socks.offer(e, front, func() []byte { return cfg.targets.state(e, cfg.memory()) })
	log.Info("Ready", "addr", front.Addr(), "targets", cfg.targets.inForce())
	leave := follow(ctx, cfg.adaptive)
	select {
	case <-ctx.Done():
		withdraw()
	case <-taken:
		log.Info("A successor has taken the port over")
		cfg.finish = handOverWithin
		socks.stopAdmin() // from now on the successor answers there
	}
	leave() // a draining proxy applies no recommendations
	e.Health.Drain()
	log.Info("Draining")
	if cut := socks.drain(context.WithoutCancel(ctx), front); cut > 0 {
		log.Warn("Connections were cut at the end of the drain timeout", "count", cut)
	}
	log.Info("Stopped")
	return nil
}
