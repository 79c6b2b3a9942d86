package main

import (
	"cmp"
	"fmt"
	"sync"

	"weir/internal/certs"
	"weir/internal/service"
	"weir/proxy/admin"
	"weir/proxy/config"
	"weir/proxy/handover"
	"weir/proxy/store/simredis"
	"weir/proxy/wire"
)

// targets makes targets of URLs, and knows which were posted.
//
// Safe for concurrent use: mu guards posted, and has one list replaced at a time;
// the rest does not change.
type targets struct {
	caFile, name string   // of https targets; see certs.Client
	settings     []string // URLs of TARGET_URL

	mu     sync.Mutex
	posted []string // URLs of the last POST /config/targets; none: the settings' hold
}

// newTargets reads what https targets are trusted by.
func newTargets(c *config.Config) (*targets, error) {
	t := &targets{caFile: c.Edge.CAFile, name: c.Edge.ServerName, settings: urls(c.Targets)}
	if _, err := certs.Client(t.caFile, ""); err != nil {
		return nil, &service.SettingError{Name: "TARGET_CA_FILE", Value: t.caFile, Problem: err.Error(), Allowed: "a PEM file of certificates"}
	}
	return t, nil
}

func (t *targets) make(list []config.Target) (made []*wire.Target, err error) {
	for _, one := range list {
		w := &wire.Target{URL: one.URL, Addr: one.Addr, Host: one.Host}
		if one.Secure {
			if w.Secure, err = certs.Client(t.caFile, cmp.Or(t.name, one.Name)); err != nil {
				return nil, err
			}
		}
		made = append(made, w)
	}
	return made, nil
}

// replace makes the front's targets those of the URLs.
func (t *targets) replace(front *wire.Front, asked []string) (int, error) {
	var list []config.Target
	for i, url := range asked {
		one, err := config.ParseTarget(url)
		if err != nil {
			return i, err
		}
		for _, before := range list {
			if before.URL == one.URL {
				return i, fmt.Errorf("%q is there twice", url)
			}
		}
		list = append(list, one)
	}
	made, err := t.make(list)
	if err != nil {
		return 0, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.posted = urls(list)
	front.SetTargets(made)
	return 0, nil
}

func urls(list []config.Target) (urls []string) {
	for _, t := range list {
		urls = append(urls, t.URL)
	}
	return urls
}

// inForce are the URLs of the targets.
func (t *targets) inForce() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.posted) > 0 {
		return t.posted
	}
	return t.settings
}

// state is what a successor is to know: the targets that were posted, and docs,
// which are nil with a shared store.
func (t *targets) state(e *service.Env, docs *simredis.Documents) []byte {
	t.mu.Lock()
	posted := t.posted
	t.mu.Unlock()
	text, err := admin.AppendState(nil, t.settings, posted, docs)
	if err != nil {
		e.Logger("Proxy").Warn("A successor is told nothing of what was posted here", "error", err)
	}
	return text
}

// inherit has the targets of c be those that were posted to the proxy before, and
// returns what else is known of it.
func (t *targets) inherit(e *service.Env, c *config.Config, taken *handover.Taken) *admin.State {
	if taken == nil {
		return new(admin.State)
	}
	log := e.Logger("Proxy")
	before, err := admin.ReadState(taken.State)
	if err == nil {
		var list []config.Target
		if list, err = before.TargetsFor(t.settings); len(list) > 0 {
			c.Targets, t.posted = list, urls(list)
			log.Warn("Targets that were posted to the proxy before override TARGET_URL", "targets", t.posted)
		} else if err == nil && len(before.Targets) > 0 {
			log.Warn("TARGET_URL has changed; targets that were posted to the proxy before are dropped", "targets", before.Targets)
		}
	}
	if err != nil {
		log.Warn("What was posted to the proxy before is not known here", "error", err)
	}
	return before
}
