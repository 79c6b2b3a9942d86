package rig

import (
	"net"
	"sync"
)

// Sockets are the connections of a listener for experiments that write answers byte by byte.
//
// Safe for concurrent use: mu guards the connections.
type Sockets struct {
	ln    net.Listener
	mu    sync.Mutex
	conns map[net.Conn]bool // nil after Stop
	ended sync.WaitGroup
}

// Accept serves each connection that ln accepts in a goroutine, and closes it afterwards.
func Accept(ln net.Listener, serve func(c net.Conn)) *Sockets {
	s := &Sockets{ln: ln, conns: make(map[net.Conn]bool)}
	s.ended.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			s.start(c, serve)
		}
	})
	return s
}

func (s *Sockets) start(c net.Conn, serve func(c net.Conn)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conns == nil {
		Reset(c)
		return
	}
	s.conns[c] = true
	s.ended.Go(func() {
		serve(c)
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.conns, c)
		_ = c.Close()
	})
}

// Stop closes the listener, resets all connections, and waits until none is served.
func (s *Sockets) Stop() {
	_ = s.ln.Close()
	s.mu.Lock()
	for c := range s.conns {
		Reset(c)
	}
	s.conns = nil
	s.mu.Unlock()
	s.ended.Wait()
}

// Reset closes a connection so that its peer gets a reset.
func Reset(c net.Conn) {
	if tc, ok := c.(*net.TCPConn); ok {
		_ = tc.SetLinger(0)
	}
	_ = c.Close()
}
