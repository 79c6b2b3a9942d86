package rig

import (
	"context"
	"fmt"
	"strings"

	"weir/internal/freeport"
)

// A Master is a proxy that decides for sidecars and forwards nothing.
type Master struct {
	*Process
	Addr string // of the decision port
	Own  string // of its own endpoints
	Env  []string
}

// StartMaster starts a master with settings of the form NAME=value, and waits until it
// answers.
func StartMaster(ctx context.Context, env ...string) (m *Master, err error) {
	m = &Master{Env: env}
	if m.Addr, err = freeport.Addr(); err != nil {
		return nil, err
	}
	if m.Own, err = freeport.Addr(); err != nil {
		return nil, err
	}
	return m, m.Restart(ctx)
}

// Restart starts the master again after Kill, at the same address and with Env.
func (m *Master) Restart(ctx context.Context) (err error) {
	_, port, _ := strings.Cut(m.Addr, ":")
	if m.Process, err = Launch("proxy", m.Own, 0, append([]string{"TARGET_URL=none", "DECISION_PORT=" + port}, m.Env...)); err != nil {
		return fmt.Errorf("start a master: %w", err)
	}
	if err := m.await(ctx, m.Own); err != nil {
		return err
	}
	return m.await(ctx, m.Addr)
}
