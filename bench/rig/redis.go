package rig

import (
	"context"
	"os"
	"strings"

	"weir/internal/freeport"
)

// A Redis is a redis-server on loopback that stores nothing on disk.
type Redis struct {
	*Process
	Addr string
	dir  string
}

// StartRedis starts a redis-server. It fails if none is installed.
func StartRedis(ctx context.Context) (r *Redis, err error) {
	err = Try(func() {
		Check(Installed("redis-server"))
		r = &Redis{Addr: Must(freeport.Addr()), dir: Must(os.MkdirTemp("", "weir-redis-"))}
		if err := r.Restart(ctx); err != nil {
			r.End()
			Check(err)
		}
	})
	return r, err
}

// Restart starts the server again after Kill, at the same address and empty.
func (r *Redis) Restart(ctx context.Context) (err error) {
	host, port, _ := strings.Cut(r.Addr, ":")
	r.Process, err = Start("redis-server", nil, "redis-server", "--bind", host, "--port", port, "--dir", r.dir, "--save", "", "--appendonly", "no")
	if err != nil {
		return err
	}
	return r.AwaitPort(ctx, r.Addr)
}

// End kills the server and removes its folder.
func (r *Redis) End() {
	if r.Process != nil { // otherwise it could not be started
		r.Kill()
	}
	_ = os.RemoveAll(r.dir)
}
