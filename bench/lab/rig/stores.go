package rig

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"weir/internal/test/freeport"
)

// A Kind is a kind of store.
type Kind string

// The kinds of stores.
const (
	OwnStore      Kind = "" // in the process of each proxy
	RedisStore    Kind = "Redis"
	PostgresStore Kind = "PostgreSQL"
)

// A Store is a server in which proxies share limits.
type Store interface {
	Kill()
	Restart(ctx context.Context) // ends the current Try if it fails
	Pid() int
}

// open starts a store and returns the setting by which proxies find it; nil and "" for
// OwnStore.
func (k Kind) open(l *Lab) (s Store, setting string) {
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
	Check(Installed("redis-server"))
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
func (r *Redis) End() error { return endServer(r.Process, r.Kill) }

// A Postgres is a PostgreSQL server on loopback, with a superuser "weir" without a password.
// It does not run as root, because PostgreSQL refuses that.
type Postgres struct {
	*Process
	Addr string

	dir      string // owned by the user that it runs as
	programs string // the folder of initdb and postgres
	as       *syscall.Credential
	settings []string
}

// start starts the server as a part of l. It fails if none is installed.
func (p *Postgres) start(l *Lab) {
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if path, err := exec.LookPath("initdb"); err == nil {
		found = append(found, path)
	}
	if len(found) == 0 {
		Check(errors.New("PostgreSQL is not installed (Debian: apt-get install postgresql)"))
	}
	p.programs, p.Addr = filepath.Dir(found[len(found)-1]), Must(freeport.Addr())
	p.dir = Must(os.MkdirTemp("/tmp", "weir-postgres-")) // other users may not have access to os.TempDir
	l.keep(p.End)
	p.prepare()
	p.Restart(l.Ctx)
}

// prepare gives the folder to the user and creates the database in it.
func (p *Postgres) prepare() {
	if os.Getuid() == 0 {
		as := Must(user.Lookup("nobody"))
		uid, gid := Must(strconv.ParseUint(as.Uid, 10, 32)), Must(strconv.ParseUint(as.Gid, 10, 32))
		p.as = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		Check(os.Chown(p.dir, int(uid), int(gid)))
	}
	out, err := p.command("initdb", "-D", p.dir+"/data", "-U", "weir", "-A", "trust", "-E", "UTF8",
		"--no-sync").CombinedOutput()
	if err != nil {
		Check(fmt.Errorf("initdb: %w\n%s", err, out))
	}
}

// command returns a command of PostgreSQL that runs as the user, without variables such as
// PGDATA.
func (p *Postgres) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(p.programs, name), args...)
	cmd.Dir, cmd.Env = p.dir, []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: p.as}
	return cmd
}

// Restart starts the server again after Kill, at the same address and with its data.
func (p *Postgres) Restart(ctx context.Context) {
	host, port, _ := strings.Cut(p.Addr, ":")
	args := []string{"-D", p.dir + "/data", "-h", host, "-p", port, "-k", "", "-c", "dynamic_shared_memory_type=mmap"}
	for _, s := range p.settings {
		args = append(args, "-c", s)
	}
	p.Process = Must(startCommand("postgres", p.command("postgres", args...)))
	Check(p.AwaitPort(ctx, p.Addr))
	for !strings.Contains(p.Output(), "ready to accept connections") { // until then it refuses them
		if ended, _ := p.Ended(); ended {
			Check(fmt.Errorf("postgres ended while it was started:\n%s", p.Output()))
		}
		Check(Wait(ctx, time.Millisecond))
	}
}

// URL returns the URL of the database.
func (p *Postgres) URL() string { return "postgres://weir@" + p.Addr + "/postgres?sslmode=disable" }

// Kill kills the server and its child processes, as in a crash. It is stopped first, so that
// it starts no more of them.
func (p *Postgres) Kill() {
	_ = syscall.Kill(p.Pid(), syscall.SIGSTOP) // it may have ended
	for _, child := range slices.Backward(children(p.Pid())) {
		_ = syscall.Kill(child, syscall.SIGKILL)
	}
	p.Process.Kill()
}

// End kills the server and removes its folder. It fails if the server had crashed.
func (p *Postgres) End() error { return errors.Join(endServer(p.Process, p.Kill), os.RemoveAll(p.dir)) }

func endServer(p *Process, kill func()) error {
	err := p.crashed()
	if p != nil { // otherwise it could not be started
		kill()
	}
	return err
}
