package main

import (
	"context"
	"sync/atomic"
	"time"

	"weir/proxy/ask/port"
	"weir/proxy/config"
	"weir/proxy/control/admin"
	"weir/proxy/limit"
	"weir/proxy/store"
)

// ruleFiles returns the files of rules and clients.
func ruleFiles(c *config.Config, templates *admin.Templates) admin.RuleFiles {
	files := admin.RuleFiles{Rules: c.Rules.File, Clients: c.Rules.ClientsFile, Options: c.RuleOptions()}
	if templates != nil {
		files.Options.HasTemplate = templates.Has
	}
	return files
}

// syncPause is the time between two comparisons of the limit configuration with the
// store.
const syncPause = 500 * time.Millisecond

// registerReloads makes SIGHUP read these again: templates of refusals, the CA files of targets, and
// rules, clients and limits that come from files or from a store that other proxies write to.
func (p *proxy) registerReloads() {
	c, shared := p.config, p.shared()
	if c.Templates != "" { // before the rules, which refer to templates
		p.OnReload(p.templates.Reload, "templates")
	}
	var parts []string
	if c.Rules.File != "" || shared {
		parts = append(parts, "rules")
	}
	if c.Rules.ClientsFile != "" {
		parts = append(parts, "clients")
	}
	if parts != nil {
		p.OnReload(func() error { return p.rules.Reload(time.Now()) }, parts...)
	}
	if shared {
		p.OnReload(func() error { _, err := p.limits.Reload(time.Now()); return err }, "limits")
	}
	if c.Server.CAFile != "" {
		p.OnReload(func() error { return p.targets.reload(p.server) }, "certificates")
	}
}

// keepConfiguration loads the global limit and the rules, and follows changes in the
// store and the files until ctx ends.
func (p *proxy) keepConfiguration(ctx context.Context) (err error) {
	s := p.store
	if p.limits, err = admin.NewLimits(time.Now(), p.firstLimit(), s, p.Logger); err != nil {
		return err
	}
	if p.rules, err = admin.NewRules(time.Now(), ruleFiles(p.config, p.templates), s, p.Logger); err != nil {
		return err
	}
	p.policies = &admin.PolicyCache{Limits: p.limits, Rules: p.rules}
	p.limits.InMemory, p.rules.InMemory = !p.shared(), !p.shared()
	p.limits.OnChange, p.rules.OnChange = s.ForgetRefusals, s.ForgetRefusals
	p.limitFrom = p.impliedLimit()
	p.limits.Share(ctx, s, syncPause)
	p.rules.Share(ctx, s, syncPause)
	return nil
}

// firstLimit returns the limit to start with: none if impliedLimit would replace it at once.
func (p *proxy) firstLimit() limit.Config {
	c := p.config
	first := c.Limit
	if !c.LimitGiven() && !c.UsesRemote() && c.LimitsDescriptors() {
		first.Algorithm = limit.Off
	}
	return first
}

// impliedLimit keeps the global limit that is in force if the settings say nothing about it: that of the
// master, and without one none as long as rules or descriptors limit something. It returns what says where
// the limit of the settings comes from. It is called before anything changes.
func (p *proxy) impliedLimit() (from func() string) {
	c := p.config
	switch {
	case c.LimitGiven():
		return func() string { return "settings" }
	case c.UsesRemote():
		return p.masterLimit()
	}
	limits := func() bool { return p.rules.Set().Len() > 0 || c.LimitsDescriptors() }
	apply := func() {
		cfg := c.Limit
		if limits() {
			cfg.Algorithm = limit.Off
		}
		_ = p.limits.Default(cfg) // it is valid
	}
	p.rules.OnChange = func() {
		p.store.ForgetRefusals()
		apply()
	}
	apply()
	return func() string {
		if limits() {
			return "none, since there are rules or descriptors"
		}
		return "default"
	}
}

// masterLimit follows the limit in force at the master.
func (p *proxy) masterLimit() (from func() string) {
	var known atomic.Bool
	take := func(doc store.Document) {
		if doc.Version == 0 {
			return // an older master
		}
		cfg, err := admin.ReadLimit(doc)
		if err == nil {
			err = p.limits.Default(cfg)
		}
		if err != nil {
			p.Logger("RemoteStore").Warn("The limit of the master is ignored", "reason", err)
			return
		}
		known.Store(true)
	}
	if doc, err := p.store.Read(port.LimitDocument); err == nil {
		take(doc)
	}
	p.store.Watch(port.LimitDocument, take)
	return func() string {
		if known.Load() {
			return "master"
		}
		return "default, until the master is reached"
	}
}
