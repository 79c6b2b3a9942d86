package rig

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"

	"weir/internal/freeport"
)

// A Redis is a redis-server on loopback that stores nothing on disk.
type Redis struct {
	*Process
	Addr string
	dir  string
}

// StartRedis starts a redis-server. It fails if none is installed.
func StartRedis(ctx context.Context) (*Redis, error) {
	if _, err := exec.LookPath("redis-server"); err != nil {
		return nil, fmt.Errorf("redis-server is not installed (Debian: apt-get install redis-server): %w", err)
	}
	addr, err := freeport.Addr()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "weir-redis-")
	if err != nil {
		return nil, err
	}
	r := &Redis{Addr: addr, dir: dir}
	return r, r.Restart(ctx)
}

// Restart starts the server again after Kill, at the same address and empty.
func (r *Redis) Restart(ctx context.Context) error {
	host, port, err := net.SplitHostPort(r.Addr)
	if err != nil {
		return err
	}
	r.Process, err = Start("redis-server", nil, "redis-server", "--bind", host, "--port", port, "--dir", r.dir, "--save", "", "--appendonly", "no")
	if err != nil {
		return err
	}
	return r.AwaitPort(ctx, r.Addr)
}

// End kills the server and removes its folder.
func (r *Redis) End() {
	r.Kill()
	_ = os.RemoveAll(r.dir)
}
