package main

import (
	"context"
	"net"
	"os"
	"strconv"

	"weir/internal/service"
	"weir/proxy/admin"
	"weir/proxy/config"
	"weir/proxy/decision"
	"weir/proxy/wire"
)

// startDecisions starts the decision port on its socket, if there is one.
func startDecisions(e *service.Env, c *config.Config, socks *sockets, cfg *configuration) error {
	if socks.decision == nil {
		return nil
	}
	set := c.Session()
	port, err := decision.Start(decision.Config{
		Socket: socks.decision, Loop: c.Loop(), Store: cfg.store, Documents: []string{admin.ConfigName, admin.RulesName}, Quiet: cfg.memory() != nil,
		Access: decision.Access{Token: c.Decision.Token, Edit: e.Guard.Token, EditOpen: e.Guard.Open, Local: c.Decision.Local(), Open: c.Decision.Open},
		Policy: cfg.policies.Policy, TrustedProxies: set.TrustedProxies, PreflightsApart: set.PreflightsApart, Style: set.Style, Pages: cfg.templates.Pages(),
		Healthy: e.Health.Ready, DrainGrace: set.DrainGrace, DrainTimeout: c.DrainTimeout,
	})
	if err != nil {
		return err
	}
	socks.port = port
	port.Register(e.Metrics)
	e.Logger("DecisionService").Info("Listening", "port", strconv.Itoa(c.Decision.Port), "addr", port.Addr())
	return nil
}

// drain ends the decision port and the front at the same time, and returns how many
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

// files are duplicates of the sockets listened on, for a successor; the caller closes them.
func (s *sockets) files(front *wire.Front) ([]*os.File, error) {
	files, err := front.Sockets()
	add := func(l interface{ File() (*os.File, error) }) {
		var f *os.File
		if f, err = l.File(); err == nil {
			files = append(files, f)
		}
	}
	if l, ok := s.admin.(*net.TCPListener); ok && err == nil {
		add(l)
	}
	if s.port != nil && err == nil {
		add(s.port)
	}
	return files, err
}
