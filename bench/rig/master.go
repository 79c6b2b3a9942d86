package rig

import (
	"strings"

	"weir/internal/freeport"
)

// A Master is a proxy that decides for sidecars and forwards nothing.
type Master struct {
	*Process
	Addr string // of the decision port
	Own  string // of its own endpoints
	Env  []string

	lab *Lab
}

// Master starts a master with settings of the form NAME=value, and waits until it answers. It
// ends with the current part.
func (l *Lab) Master(env ...string) *Master {
	m := &Master{Addr: Must(freeport.Addr()), Own: Must(freeport.Addr()), Env: env, lab: l}
	m.Restart()
	return m
}

// Restart starts the master again after Kill, at the same address and with Env.
func (m *Master) Restart() {
	_, port, _ := strings.Cut(m.Addr, ":")
	m.Process = m.lab.StartAt("proxy", m.Own, append([]string{"TARGET_URL=none", "DECISION_PORT=" + port}, m.Env...)...)
	Check(m.AwaitPort(m.lab.Ctx, m.Addr))
}
