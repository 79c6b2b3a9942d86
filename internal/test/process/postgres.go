package process

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// A Postgres is a PostgreSQL, or a program in front of one, with a folder of its own. It does not run
// as root, which it would refuse to, but as nobody then.
//
// Owned by one goroutine.
type Postgres struct {
	*Child // nil before it is started
	Addr   string
	Dir    string // owned by the user as which it runs

	as *syscall.Credential // nil: the user of this process
}

// NewPostgres makes the folder of a server that will listen at addr. Remove removes it.
func NewPostgres(addr string) (p *Postgres, err error) {
	p = &Postgres{Addr: addr}
	parent := os.TempDir()
	if os.Getuid() == 0 {
		parent = "/tmp" // the other may be closed to other users
		if p.as, err = CredentialOf("nobody"); err != nil {
			return nil, err
		}
	}
	if p.Dir, err = os.MkdirTemp(parent, "weir-postgres-"); err == nil && p.as != nil {
		err = os.Chown(p.Dir, int(p.as.Uid), int(p.as.Gid))
	}
	return p, err
}

// Command returns a command that runs as the server's user in its folder, without variables such as
// PGDATA. The error is that of Find.
func (p *Postgres) Command(program string, args ...string) (*exec.Cmd, error) {
	path, err := Find(program, "/usr/lib/postgresql/*/bin", "/usr/sbin")
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(path, args...)
	cmd.Dir, cmd.Env = p.Dir, []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: p.as}
	return cmd, nil
}

// Run runs such a command to its end, with input. The error contains its output.
func (p *Postgres) Run(input, program string, args ...string) (output string, err error) {
	cmd, err := p.Command(program, args...)
	if err != nil {
		return "", err
	}
	cmd.Stdin = strings.NewReader(input)
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%s: %w\n%s", program, err, out)
	}
	return string(out), err
}

// Data returns the folder of the server's files.
func (p *Postgres) Data() string { return filepath.Join(p.Dir, "data") }

// Init makes the server's files, with a superuser weir who needs no password.
func (p *Postgres) Init(args ...string) error {
	_, err := p.Run("", "initdb", append([]string{"-D", p.Data(), "-U", "weir", "-A", "trust", "-E", "UTF8", "--no-sync"},
		args...)...)
	return err
}

// Start starts the server with settings of the form NAME=value, and waits until it accepts
// connections, also after it was killed.
func (p *Postgres) Start(ctx context.Context, settings ...string) error {
	host, port, err := net.SplitHostPort(p.Addr)
	args := []string{"-D", p.Data(), "-h", host, "-p", port, "-k", ""}
	for _, s := range append([]string{"dynamic_shared_memory_type=mmap"}, settings...) { // /dev/shm may be small
		args = append(args, "-c", s)
	}
	if err == nil {
		err = p.Launch(ctx, "postgres", args...)
	}
	if err != nil {
		return err
	}
	return p.Until(ctx, "is ready", func() bool { return strings.Contains(p.Log.String(), "ready to accept ") })
}

// Launch starts a command that listens at Addr, and waits until it does.
func (p *Postgres) Launch(ctx context.Context, program string, args ...string) error {
	cmd, err := p.Command(program, args...)
	if err == nil {
		p.Child, err = Start(cmd)
	}
	if err != nil {
		return err
	}
	return p.AwaitPort(ctx, p.Addr)
}

// Kill kills the server and all of its processes, as in a crash, if it runs.
func (p *Postgres) Kill() {
	if p.Child != nil && !p.Ended() {
		_ = p.SignalAll(context.Background(), syscall.SIGKILL)
	}
}

// Remove kills the server and removes its folder.
func (p *Postgres) Remove() error {
	p.Kill()
	return os.RemoveAll(p.Dir)
}
