package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"

	"weir/internal/service"
	"weir/proxy/config"
	"weir/proxy/handover"
)

// sockets are what the proxy listens on: new ones, or those of the proxy that
// it takes over from.
type sockets struct {
	data, admin net.Listener // admin is nil without ADMIN_PORT
	stopAdmin   func()       // ends what answers there
	taken       *handover.Taken
}

// openSockets takes the sockets over when TAKEOVER says so and a proxy runs;
// what is missing then is opened.
func openSockets(ctx context.Context, e *service.Env, c *config.Config) (*sockets, error) {
	host, port, err := net.SplitHostPort(e.Addr)
	if err != nil {
		return nil, err
	}
	if admin := c.Edge.AdminPort; admin != 0 && strconv.Itoa(admin) == port {
		return nil, &service.SettingError{Name: "ADMIN_PORT", Value: port, Problem: "is PORT", Allowed: "another port, or 0: the own endpoints stay on PORT"}
	}
	s := &sockets{stopAdmin: func() {}}
	if c.Edge.Takeover {
		s.taken, err = handover.Take(ctx, nameOf(port))
		if errors.Is(err, handover.ErrNobody) {
			e.Logger("Proxy").Info("No proxy runs here that the port could be taken over from", "port", port)
		} else if err != nil {
			return nil, err
		}
	}
	if s.data, err = s.open(host, port); err != nil {
		s.close()
		return nil, err // names the address
	}
	if c.Edge.AdminPort != 0 {
		if s.admin, err = s.open(c.Edge.AdminBind, strconv.Itoa(c.Edge.AdminPort)); err != nil {
			s.close()
			return nil, fmt.Errorf("open ADMIN_PORT: %w", err)
		}
	}
	return s, nil
}

// nameOf is what the proxies on one port find each other by. A port that is no
// number has failed to open before.
func nameOf(port string) string {
	n, _ := strconv.Atoi(port)
	return handover.Name(n)
}

// open returns the socket for a port: the one taken over, or a new one.
func (s *sockets) open(host, port string) (net.Listener, error) {
	if s.taken != nil {
		for _, l := range s.taken.Sockets {
			if _, p, err := net.SplitHostPort(l.Addr().String()); err == nil && p == port {
				return l, nil
			}
		}
	}
	return net.Listen("tcp", net.JoinHostPort(host, port))
}

// close gives up what was opened; a proxy whose sockets were taken goes on.
func (s *sockets) close() {
	if s.taken != nil {
		s.taken.Close()
	}
	for _, l := range []net.Listener{s.data, s.admin} {
		if l != nil {
			_ = l.Close()
		}
	}
}

// offer tells the proxy that was taken over from, if any, to drain, and lets a
// successor take the sockets: its coming is told on the channel returned. stop
// withdraws the offer.
func (s *sockets) offer(e *service.Env, data *os.File) (taken <-chan struct{}, stop func(), err error) {
	if s.taken != nil {
		if err := s.taken.Ready(); err != nil {
			return nil, nil, fmt.Errorf("take the port over: %w", err)
		}
		for _, l := range s.taken.Sockets {
			if l != s.data && l != s.admin {
				_ = l.Close() // it had a port that this one has not
			}
		}
		e.Logger("Proxy").Info("Took the port over; the proxy before drains")
	}
	files := []*os.File{data}
	if l, ok := s.admin.(*net.TCPListener); ok {
		f, err := l.File()
		if err != nil {
			return nil, nil, err
		}
		files = append(files, f)
	}
	coming := make(chan struct{})
	_, port, _ := net.SplitHostPort(e.Addr)
	offered, err := handover.Offer(nameOf(port), files, nil, func() { close(coming) })
	for _, f := range files {
		_ = f.Close()
	}
	if err != nil {
		// It serves all the same; only a successor has to wait for its end.
		e.Logger("Proxy").Warn("This proxy cannot be taken over from", "error", err)
		return coming, func() {}, nil
	}
	return coming, offered.Close, nil
}
