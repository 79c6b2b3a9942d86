package rig

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"syscall"

	"weir/internal/test/freeport"
	"weir/internal/test/process"
)

// A StoreKind is a kind of store.
type StoreKind string

// The kinds of stores.
const (
	MemoryStore   StoreKind = "" // in the process of each proxy
	RedisStore    StoreKind = "Redis"
	PostgresStore StoreKind = "PostgreSQL"
)

// A Store is a server in which proxies share limits.
type Store interface {
	Kill()
	Restart(ctx context.Context) // ends the current Catch if it fails
	SignalAll(ctx context.Context, signal syscall.Signal) error
}

// open starts a store and returns the setting by which proxies find it; nil and "" for
// MemoryStore.
func (k StoreKind) open(l *Lab) (s Store, setting string) {
	switch k {
	case RedisStore:
		r := l.Redis()
		return r, "REDIS_HOST=" + r.Addr
	case PostgresStore:
		p := l.Postgres()
		return p, "POSTGRES_URL=" + p.URL()
	}
	return nil, ""
}

// A Redis is a redis-server on loopback that stores nothing on disk.
type Redis struct {
	*Process
	Addr string
	dir  string
}

// start starts the server as a part of l. It fails if none is installed.
func (r *Redis) start(l *Lab) {
	Check(RequireInstalled("redis-server"))
	r.Addr, r.dir = Must(freeport.Addr()), l.Dir
	l.keep(r.End)
	r.Restart(l.Ctx)
}

// Restart starts the server again after Kill, at the same address and empty.
func (r *Redis) Restart(ctx context.Context) {
	host, port, _ := strings.Cut(r.Addr, ":")
	r.Process = Must(Start("redis-server", nil, "redis-server", "--bind", host, "--port", port, "--dir", r.dir,
		"--save", "", "--appendonly", "no"))
	Check(r.AwaitPort(ctx, r.Addr))
}

// End kills the server. It fails if the server had crashed.
func (r *Redis) End() error {
	err := r.crashed()
	if r.Process != nil { // otherwise it could not be started
		r.Kill()
	}
	return err
}

// A Postgres is a PostgreSQL server on loopback, with a superuser "weir" without a password.
type Postgres struct {
	*process.Postgres
	killed   bool // by us
	settings []string
}

// start starts the server as a part of l. It fails if none is installed.
func (p *Postgres) start(l *Lab) {
	p.Postgres = Must(process.NewPostgres(Must(freeport.Addr())))
	l.keep(p.End)
	err := p.Init()
	if errors.Is(err, exec.ErrNotFound) {
		err = errors.New("PostgreSQL is not installed (Debian: apt-get install postgresql)")
	}
	Check(err)
	p.Restart(l.Ctx)
}

// Restart starts the server again after Kill, at the same address and with its data.
func (p *Postgres) Restart(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, startMax)
	defer cancel()
	p.killed = false
	Check(p.Start(ctx, p.settings...))
}

// Output returns the end of the server's output.
func (p *Postgres) Output() string { return p.Log.End(outputMax) }

// URL returns the URL of the database.
func (p *Postgres) URL() string { return "postgres://weir@" + p.Addr + "/postgres?sslmode=disable" }

// Kill kills the server and its child processes, as in a crash.
func (p *Postgres) Kill() {
	p.killed = true
	p.Postgres.Kill()
}

// End kills the server and removes its folder. It fails if the server had crashed.
func (p *Postgres) End() (err error) {
	if p.Child != nil && !p.killed && p.Ended() {
		err = fmt.Errorf("postgres ended by itself: %v; its output:\n%s", p.ProcessState, p.Output())
	}
	return errors.Join(err, p.Remove())
}
