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

	"weir/internal/freeport"
)

// A Postgres is a PostgreSQL of an experiment, on loopback, with a superuser "weir" who
// needs no password. It does not run as root, which it would refuse to.
type Postgres struct {
	*Process
	Addr string

	dir      string // owned by the user as which it runs
	programs string // the folder of initdb and postgres
	as       *syscall.Credential
	settings []string
}

// StartPostgres starts a PostgreSQL with these settings, each NAME=value, besides its
// defaults. The error says so when none is installed.
func StartPostgres(ctx context.Context, settings ...string) (p *Postgres, err error) {
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if path, err := exec.LookPath("initdb"); err == nil {
		found = append(found, path)
	}
	if len(found) == 0 {
		return nil, errors.New("PostgreSQL is not installed (Debian: apt-get install postgresql)")
	}
	p = &Postgres{programs: filepath.Dir(found[len(found)-1]), settings: settings}
	if p.Addr, err = freeport.Addr(); err != nil {
		return nil, err
	}
	if p.dir, err = os.MkdirTemp("/tmp", "weir-postgres-"); err != nil { // os.TempDir may be closed to others
		return nil, err
	}
	if err = p.prepare(); err == nil {
		err = p.Restart(ctx)
	}
	if err != nil {
		_ = os.RemoveAll(p.dir)
		return nil, err
	}
	return p, nil
}

// prepare gives the folder to the user, and makes the files of the database in it.
func (p *Postgres) prepare() error {
	if os.Getuid() == 0 {
		nobody, err := user.Lookup("nobody")
		if err != nil {
			return err
		}
		uid, err1 := strconv.ParseUint(nobody.Uid, 10, 32)
		gid, err2 := strconv.ParseUint(nobody.Gid, 10, 32)
		p.as = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		if err := errors.Join(err1, err2, os.Chown(p.dir, int(uid), int(gid))); err != nil {
			return err
		}
	}
	out, err := p.command("initdb", "-D", p.dir+"/data", "-U", "weir", "-A", "trust", "-E", "UTF8", "--no-sync").CombinedOutput()
	if err != nil {
		return fmt.Errorf("initdb: %w\n%s", err, out)
	}
	return nil
}

// command is a program of PostgreSQL, run as the user. PGDATA and the like are not for it.
func (p *Postgres) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(p.programs, name), args...)
	cmd.Dir, cmd.Env = p.dir, []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: p.as}
	return cmd
}

// Restart starts it again, after Kill, on the same address with what it has kept.
func (p *Postgres) Restart(ctx context.Context) (err error) {
	host, port, _ := strings.Cut(p.Addr, ":")
	args := []string{"-D", p.dir + "/data", "-h", host, "-p", port, "-k", "", "-c", "dynamic_shared_memory_type=mmap"}
	for _, s := range p.settings {
		args = append(args, "-c", s)
	}
	if p.Process, err = startCommand("postgres", p.command("postgres", args...)); err != nil {
		return err
	}
	if err := p.AwaitPort(ctx, p.Addr); err != nil {
		return err
	}
	for !strings.Contains(p.Output(), "ready to accept connections") { // before, it refuses them
		if ended, _ := p.Ended(); ended {
			return fmt.Errorf("postgres ended while it was started:\n%s", p.Output())
		}
		if err := Wait(ctx, time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

// URL is how a proxy, or a client, reaches its database.
func (p *Postgres) URL() string { return "postgres://weir@" + p.Addr + "/postgres?sslmode=disable" }

// Kill ends it and all of its processes at once, as a crash would. It starts none meanwhile.
func (p *Postgres) Kill() {
	_ = syscall.Kill(p.Pid(), syscall.SIGSTOP) // it may have ended
	for _, child := range slices.Backward(children(p.Pid())) {
		_ = syscall.Kill(child, syscall.SIGKILL)
	}
	p.Process.Kill()
}

// End ends it and removes its folder.
func (p *Postgres) End() {
	p.Kill()
	_ = os.RemoveAll(p.dir)
}
