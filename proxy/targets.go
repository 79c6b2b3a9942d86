package main

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"sync"

	"weir/internal/program/certs"
	"weir/internal/program/handover"
	"weir/internal/program/service"
	"weir/proxy/config"
	"weir/proxy/control/admin"
	"weir/proxy/store/simredis"
	"weir/proxy/targets/roster"
	"weir/proxy/wire"
)

// targets makes targets from URLs, and remembers which were set by POST /config/targets.
//
// Safe for concurrent use: mu guards what changes, and serializes replacements.
type targets struct {
	caFile, name string          // of https targets; see certs.Client
	settings     []config.Target // of TARGET_URL
	usesHTTP2    func(t *config.Target) bool

	mu     sync.Mutex
	posted []config.Target      // from the last POST /config/targets; if empty, settings apply
	trust  *x509.CertPool       // of CAFile; nil: the system's
	secure map[peer]*tls.Config // with that trust
}

// A peer is whom a target is expected to be: the name in its certificate, and whether it is offered HTTP/2.
type peer struct {
	name  string
	http2 bool
}

// newTargets reads the authorities that https targets are verified with.
func newTargets(c *config.Config) (*targets, error) {
	t := &targets{caFile: c.Server.CAFile, name: c.Server.ServerName, settings: c.Targets, usesHTTP2: c.UsesHTTP2}
	if err := t.readTrust(); err != nil {
		return nil, fileFault("TARGET_CA_FILE", t.caFile, err)
	}
	return t, nil
}

// readTrust reads the authorities again. The caller holds mu, or t is not shared yet.
func (t *targets) readTrust() error {
	if t.caFile == "" {
		t.secure = make(map[peer]*tls.Config)
		return nil
	}
	trust, err := certs.Pool(t.caFile)
	if err == nil && !trust.Equal(t.trust) {
		t.trust, t.secure = trust, make(map[peer]*tls.Config)
	}
	return err
}

// make returns the targets of a list. The caller holds mu, or t is not shared yet.
func (t *targets) make(list []config.Target) (made []*roster.Target, err error) {
	for _, one := range list {
		w := &roster.Target{URL: one.URL, Addr: one.Addr, Host: one.Host, HTTP2: t.usesHTTP2(&one)}
		if one.Secure {
			if w.Secure, err = t.secured(peer{cmp.Or(t.name, one.Name), w.HTTP2}); err != nil {
				return nil, err
			}
		}
		made = append(made, w)
	}
	return made, nil
}

// secured returns the TLS configuration of the targets that are expected to be p. They share it until the
// authorities change. The caller holds mu, or t is not shared yet.
func (t *targets) secured(p peer) (secure *tls.Config, err error) {
	if t.secure[p] == nil {
		if secure, err = certs.Client("", p.name); err != nil {
			return nil, err
		}
		secure.RootCAs = t.trust
		if p.http2 {
			secure.NextProtos = []string{"h2", "http/1.1"}
		}
		t.secure[p] = secure
	}
	return t.secure[p], nil
}

// reload reads the authorities again. If they have changed, existing upstream connections
// finish and are closed.
func (t *targets) reload(server *wire.Server) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.readTrust(); err != nil {
		return fmt.Errorf("TARGET_CA_FILE: %w", err)
	}
	made, err := t.make(t.list())
	if err == nil {
		server.Targets.Set(made)
	}
	return err
}

// replace replaces the server's targets by the given URLs. An error is about the URL with the
// returned index.
func (t *targets) replace(server *wire.Server, asked []string) (int, error) {
	list, i, err := config.TargetsOf(asked)
	if err != nil {
		return i, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	made, err := t.make(list)
	if err != nil {
		return 0, err
	}
	t.posted = list
	server.Targets.Set(made)
	return 0, nil
}

func urls(list []config.Target) (urls []string) {
	for _, t := range list {
		urls = append(urls, t.URL)
	}
	return urls
}

// inForce returns the URLs of the targets.
func (t *targets) inForce() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return urls(t.list())
}

// list returns the targets in force. The caller holds mu, or t is not shared yet.
func (t *targets) list() []config.Target {
	if len(t.posted) > 0 {
		return t.posted
	}
	return t.settings
}

// state encodes what a successor needs: the targets that were posted, and the documents that end
// with this process.
func (p *proxy) state() []byte {
	t := p.targets
	t.mu.Lock()
	posted := t.posted
	t.mu.Unlock()
	var docs *simredis.DocumentStore
	if !p.shared() {
		docs = &p.local.DocumentStore
	}
	text, err := admin.WriteHandoverState(urls(t.settings), urls(posted), docs)
	if err != nil {
		p.Logger("Proxy").Warn("The configuration posted here cannot be handed to the successor", "error", err)
	}
	return text
}

// inherit takes over the targets that were posted to the predecessor, and returns the
// rest of its state.
func (t *targets) inherit(e *service.Env, taken *handover.Received) *admin.HandoverState {
	if taken == nil {
		return new(admin.HandoverState)
	}
	log := e.Logger("Proxy")
	before, err := admin.ReadHandoverState(taken.State)
	if err == nil {
		var list []config.Target
		if list, err = before.TargetsFor(urls(t.settings)); len(list) > 0 {
			t.posted = list
			log.Warn("Targets that were posted to the previous proxy override TARGET_URL", "targets", urls(list))
		} else if err == nil && len(before.Targets) > 0 {
			log.Warn("TARGET_URL has changed; targets that were posted to the previous proxy are dropped", "targets",
				before.Targets)
		}
	}
	if err != nil {
		log.Warn("The configuration posted to the previous proxy is lost", "error", err)
	}
	return before
}
