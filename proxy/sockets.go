package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"weir/internal/program/handover"
	"weir/internal/program/ownfile"
	"weir/internal/program/service"
	"weir/proxy/config"
)

// sockets are the sockets that the proxy listens on. They are new, or taken over from a
// running proxy.
type sockets struct {
	data      []net.Listener // the first has BIND and PORT, the others a more specific address
	leaving   []net.Listener // have PORT and an address that BIND no longer covers
	admin     net.Listener   // nil without ADMIN_PORT
	metrics   net.Listener   // nil without PROMETHEUS_ADDR
	stopAdmin func()         // closes these two
	decision  net.Listener   // nil without DECISION_PORT
	grpc      net.Listener   // nil without GRPC_PORT

	taken *handover.Received
}

// takeOver requests the sockets of a running proxy, if TAKEOVER is set. It returns nil if no
// proxy of this user runs. Then the port is opened, which fails if another program has it.
func takeOver(ctx context.Context, e *service.Env, c *config.Config) (*handover.Received, error) {
	if !c.Server.Takeover {
		return nil, nil
	}
	_, port, err := net.SplitHostPort(e.Addr)
	if err != nil {
		return nil, err
	}
	taken, err := handover.Receive(ctx, nameOf(port))
	log := e.Logger("Proxy")
	switch {
	case errors.Is(err, handover.ErrNoOffer):
		log.Info("No proxy to take the port over from", "port", port)
		return nil, nil
	case errors.Is(err, handover.ErrHeldByOther):
		log.Warn("Not taking the port over", "port", port, "error", err)
		return nil, nil
	}
	return taken, err
}

// openSockets opens the sockets that were not taken over.
func openSockets(e *service.Env, c *config.Config, taken *handover.Received) (*sockets, error) {
	host, port, err := net.SplitHostPort(e.Addr)
	if err != nil {
		return nil, err
	}
	if err := portsDiffer(c, port); err != nil {
		return nil, err
	}
	s := &sockets{taken: taken, stopAdmin: func() {}}
	data, others, err := s.open(host, port)
	if err != nil {
		s.close()
		return nil, err // err names the address
	}
	s.data = []net.Listener{data}
	for _, l := range others {
		if covers(data.Addr(), l.Addr()) {
			s.data = append(s.data, l)
		} else {
			s.leaving = append(s.leaving, l)
		}
	}
	if err := s.openOwn(c); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// portsDiffer returns the fault of a setting that names a port which another one has. data is the data port.
func portsDiffer(c *config.Config, data string) error {
	ports := []struct{ name, port, allowed string }{
		{"PORT", data, ""},
		{"ADMIN_PORT", strconv.Itoa(c.Server.AdminPort), "another port, or 0 to keep the own endpoints on PORT"},
		{"DECISION_PORT", strconv.Itoa(c.Decision.Port), "another port, or 0 for none"},
		{"GRPC_PORT", strconv.Itoa(c.Decision.GRPC.Port), "another port, or 0: " + c.Named("DECISION_PORT") +
			" answers the same"},
	}
	for i, p := range ports {
		for _, other := range ports[:i] {
			if p.port != "0" && p.port == other.port {
				return &service.SettingError{Name: p.name, Value: p.port, Problem: "is that of " + c.Named(other.name),
					Allowed: p.allowed}
			}
		}
	}
	return nil
}

// openOwn opens the sockets that have settings of their own.
func (s *sockets) openOwn(c *config.Config) (err error) {
	if c.Server.AdminPort != 0 {
		if s.admin, _, err = s.open(c.Server.AdminBind, strconv.Itoa(c.Server.AdminPort)); err != nil {
			return fmt.Errorf("open ADMIN_PORT: %w", err)
		}
	}
	if addr := c.Server.MetricsAddr; addr != "" {
		host, port, _ := net.SplitHostPort(addr) // it is checked
		if s.metrics, _, err = s.open(host, port); err != nil {
			return fmt.Errorf("open PROMETHEUS_ADDR: %w", err)
		}
	}
	if c.Decision.Port != 0 {
		if s.decision, _, err = s.open(c.Decision.Bind, strconv.Itoa(c.Decision.Port)); err != nil {
			return fmt.Errorf("open DECISION_PORT: %w", err)
		}
	}
	if path := c.Decision.GRPC.Path; path != "" {
		if s.grpc, err = listenUnix(path); err != nil {
			return fmt.Errorf("open GRPC_UDS: %w", err)
		}
	}
	if g := c.Decision.GRPC; g.Port != 0 {
		if s.grpc, _, err = s.open(g.Bind, strconv.Itoa(g.Port)); err != nil {
			return fmt.Errorf("open GRPC_PORT: %w", err)
		}
	}
	return nil
}

// nameOf returns the name by which the proxies on one port find each other. The port must be a
// number; otherwise opening it has failed before.
func nameOf(port string) string {
	n, _ := strconv.Atoi(port)
	return handover.Name(n)
}

// open returns the socket for an address, taken over or new. others were taken over as
// well and have the same port with another address.
func (s *sockets) open(host, port string) (l net.Listener, others []net.Listener, err error) {
	addr := net.JoinHostPort(host, port)
	want, err := net.ResolveTCPAddr("tcp", addr)
	if err != nil {
		return nil, nil, err
	}
	var taken []net.Listener
	if s.taken != nil {
		taken = s.taken.Sockets
	}
	for _, one := range taken {
		switch has, ok := one.Addr().(*net.TCPAddr); {
		case !ok || has.Port != want.Port:
		case l == nil && sameAddress(has, want):
			l = one
		default:
			others = append(others, one)
		}
	}
	if l != nil {
		return l, others, nil
	}
	if len(others) == 0 {
		l, err = net.Listen("tcp", addr)
		return l, nil, err // err names the address
	}
	if l, err = besides(others, addr); err != nil {
		return nil, nil, fmt.Errorf("beside %s, which the running proxy listens on: %w", others[0].Addr(), err)
	}
	return l, others, nil
}

// listenUnix listens on a unix socket, to which all who reach its folder may connect. The socket of a program that
// has crashed is replaced; another file is not.
func listenUnix(path string) (net.Listener, error) {
	if conn, err := net.Dial("unix", path); err == nil {
		_ = conn.Close()
	} else if stat, _ := os.Lstat(path); errors.Is(err, syscall.ECONNREFUSED) && stat != nil &&
		stat.Mode().Type() == os.ModeSocket { // a file that is no socket refuses connections too
		if err := os.Remove(path); err != nil {
			return nil, err
		}
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, err // it names the path
	}
	if err := ownfile.AllowAllToConnect(path); err != nil {
		_ = l.Close()
		return nil, err
	}
	return l, nil
}

// besides listens on addr while other sockets listen on the same port with an overlapping
// address. Both proxies belong to one user, which allows sharing the port (socket(7),
// SO_REUSEPORT). The kernel gives a connection to the socket with the more specific
// address.
func besides(others []net.Listener, addr string) (net.Listener, error) {
	share := func(_, _ string, c syscall.RawConn) (err error) {
		ctlErr := c.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1) })
		return errors.Join(ctlErr, err)
	}
	for _, l := range others {
		raw, err := l.(*net.TCPListener).SyscallConn()
		if err == nil {
			err = share("", "", raw)
		}
		if err != nil {
			return nil, err
		}
	}
	return (&net.ListenConfig{Control: share}).Listen(context.Background(), "tcp", addr)
}

// sameAddress reports whether both sockets are bound to the same address. A socket bound
// to no address in particular accepts both families where the machine has both.
func sameAddress(a, b *net.TCPAddr) bool {
	return anywhere(a) && anywhere(b) || a.IP.Equal(b.IP) && a.Zone == b.Zone
}

func anywhere(a *net.TCPAddr) bool { return len(a.IP) == 0 || a.IP.IsUnspecified() }

// covers reports whether a socket bound to all also accepts connections to part.
func covers(all, part net.Addr) bool {
	a, ok := all.(*net.TCPAddr)
	p, okToo := part.(*net.TCPAddr)
	return ok && okToo && (anywhere(a) || sameAddress(a, p))
}

// close closes what was opened. A proxy whose sockets were taken over keeps its own.
func (s *sockets) close() {
	s.taken.Close()
	for _, l := range append(s.data, s.admin, s.decision, s.grpc, s.metrics) {
		if l != nil {
			_ = l.Close()
		}
	}
}

// succeed tells the predecessor, if there is one, to drain.
func (p *proxy) succeed() error {
	s := p.socks
	if s.taken == nil {
		return nil
	}
	if err := s.taken.Ready(); err != nil {
		return fmt.Errorf("take the port over: %w", err)
	}
	log := p.Logger("Proxy")
	log.Info("Took the port over; the previous proxy drains")
	for _, l := range s.leaving {
		log.Warn("BIND has changed; the address of the previous proxy is no longer served", "addr", l.Addr(), "now",
			p.server.Addr())
		p.server.Leave(l)
	}
	kept := append(append([]net.Listener{s.admin, s.decision, s.grpc, s.metrics}, s.data...), s.leaving...)
	for _, l := range s.taken.Sockets {
		if !slices.Contains(kept, l) {
			_ = l.Close() // the predecessor had an admin port, this proxy has none
		}
	}
	return nil
}

// offer lets a successor take over the sockets and the state. taken is closed when that
// happens; stop withdraws the offer.
func (p *proxy) offer() (taken <-chan struct{}, stop func()) {
	coming := make(chan struct{})
	_, port, _ := net.SplitHostPort(p.Addr)
	offered, err := handover.Offer(nameOf(port), p.listening(), p.state, func() { close(coming) })
	if err != nil {
		// The proxy serves nevertheless; a successor has to wait until it ends.
		p.Logger("Proxy").Warn("This proxy cannot be taken over from", "error", err)
		return coming, func() {}
	}
	return coming, offered.Close
}
