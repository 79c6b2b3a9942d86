package main

import (
	"cmp"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"sync"

	"weir/internal/program/service"
	"weir/proxy/config"
	"weir/proxy/control/admin"
	"weir/proxy/limit"
	"weir/proxy/store/simredis"
)

func main() {
	c := config.Config{Program: filepath.Base(os.Args[0])}
	service.Main(service.Program{
		Name: "proxy", LogName: "Proxy", About: "a rate-limiting HTTP proxy", Port: 8082,
		File: "RULES_FILE", Reloads: []string{"rules", "clients", "certificates"}, Settings: c.Register,
		Check: func() error { return check(&c) },
		Print: func() string { return printed(&c) },
		Run:   func(ctx context.Context, e *service.Env) error { return run(ctx, e, &c) },
	})
}

// run serves until ctx ends, then drains. The caller has called check.
func run(ctx context.Context, e *service.Env, c *config.Config) error {
	note(e.Logger("Proxy"), c)
	if t, found := c.SelfTarget(e.Addr); found {
		e.Logger("Proxy").Warn("TARGET_URL contains this proxy itself: requests for it are answered 508", "target", t.URL)
	}
	e.Guard.Fronted, c.Adaptive.Token = c.TrustsLoopback(), cmp.Or(c.Adaptive.Token, e.Guard.Token)
	local, err := simredis.NewStore(simredis.Config{KeysMax: c.KeysMax})
	if err != nil {
		return err
	}
	defer local.Close()
	p := &proxy{Env: e, config: c, local: local, finish: c.DrainTimeout}
	if p.store, err = p.connect(); err != nil {
		return err
	}
	defer p.closeStores()
	if p.perSecond, err = p.connectPerSecond(); err != nil {
		return err
	}
	if p.targets, err = newTargets(c); err != nil {
		return err
	}
	taken, err := takeOver(ctx, e, c)
	if err != nil {
		return err
	}
	defer taken.Close() // no effect once the predecessor has yielded the sockets
	if p.templates, err = admin.NewTemplates(c.Templates); err != nil {
		return err
	}
	p.targets.inherit(e, taken).Restore(&local.DocumentStore)
	if err := p.keepConfiguration(ctx); err != nil {
		return err
	}
	if err := p.openDeferral(taken != nil); err != nil {
		return err
	}
	if p.socks, err = openSockets(e, c, taken); err != nil {
		return err
	}
	beside, stop := context.WithCancel(context.WithoutCancel(ctx)) // ends when all connections have ended
	defer stop()
	access, err := openAccess(e, c)
	if err == nil {
		err = p.decide(beside)
	}
	if err == nil {
		err = p.serve(beside, access)
	}
	if err != nil {
		p.socks.close()
		return err
	}
	return p.live(ctx)
}

// note logs what became of the settings.
func note(log *slog.Logger, c *config.Config) {
	for _, n := range c.Translations() {
		if n.Ignored {
			log.Warn(n.Text)
		} else {
			log.Info(n.Text)
		}
	}
	for _, line := range c.Notes {
		log.Warn(line)
	}
}

// summary returns what the log says at the start: the targets, and the limit in force with where it comes
// from. In place of envoyproxy/ratelimit, which has neither, it is what there is of descriptors.
func (p *proxy) summary() []any {
	l := p.limits.Active()
	if p.config.EnvoyEnvironment() && p.descriptors != nil && l.Config.Algorithm == limit.Off {
		domains, limits := p.descriptors.Domains().Len()
		return []any{"domains", domains, "limits", limits}
	}
	from := p.limitFrom()
	if l.Source != admin.SourceDefault {
		from = l.Source
	}
	return []any{"targets", p.targets.inForce(), "limit", l.Config.String(), "limitFrom", from}
}

// live waits until ctx ends or a successor takes over, and drains.
func (p *proxy) live(ctx context.Context) error {
	log := p.Logger("Proxy")
	if err := p.succeed(); err != nil {
		p.drain(ctx)
		return err
	}
	taken, withdraw := p.offer()
	log.Info("Ready", append([]any{"addr", p.server.Addr()}, p.summary()...)...)
	following, leave := context.WithCancel(ctx)
	var advised sync.WaitGroup
	advised.Go(func() { p.adaptive.Run(following) })
	select {
	case <-ctx.Done():
		withdraw()
	case <-taken:
		log.Info("A successor has taken the port over")
		p.finish = handOverWithin
		p.socks.stopAdmin() // from now on the successor answers there
	}
	leave() // a draining proxy applies no recommendations
	advised.Wait()
	p.Health.Drain()
	log.Info("Draining")
	if cut := p.drain(context.WithoutCancel(ctx)); cut > 0 {
		log.Warn("Connections were cut at the end of the drain timeout", "count", cut)
	}
	log.Info("Stopped")
	return nil
}
