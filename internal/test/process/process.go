// Package process starts, awaits, freezes and ends the programs that tests and experiments run. It
// reports errors, and does not know who runs them: testkit has it for tests, bench/lab/rig for
// experiments.
package process

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Find returns the path of an installed program, which may also be in one of the folders. Of several
// versions there it is the latest. The error is an *exec.Error.
func Find(name string, folders ...string) (string, error) {
	path, err := exec.LookPath(name)
	for _, folder := range folders {
		if found, _ := filepath.Glob(filepath.Join(folder, name)); err != nil && len(found) > 0 {
			return found[len(found)-1], nil
		}
	}
	return path, err
}

// A Child is a process that this one has started. Other processes that it starts belong to its
// process group, unless they leave that.
//
// Safe for concurrent use: one goroutine waits for its end.
type Child struct {
	*exec.Cmd
	Log   Log // its standard output, and its standard error unless Cmd redirects it
	ended chan struct{}
}

// Start starts a command. It is killed when this process ends.
func Start(cmd *exec.Cmd) (*Child, error) {
	c := &Child{Cmd: cmd, ended: make(chan struct{})}
	cmd.Stdout = &c.Log
	if cmd.Stderr == nil {
		cmd.Stderr = &c.Log
	}
	cmd.SysProcAttr = cmp.Or(cmd.SysProcAttr, new(syscall.SysProcAttr))
	// Ctrl-C reaches only us, who end our programs in order.
	cmd.SysProcAttr.Setpgid, cmd.SysProcAttr.Pdeathsig = true, syscall.SIGKILL
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", filepath.Base(cmd.Path), err)
	}
	go func() {
		_ = cmd.Wait()
		close(c.ended)
	}()
	return c, nil
}

// Pid returns the process id.
func (c *Child) Pid() int { return c.Process.Pid }

// Done returns a channel that is closed when the process has ended and all of its output is in Log.
func (c *Child) Done() <-chan struct{} { return c.ended }

// Ended reports whether the process has ended and all of its output is in Log.
func (c *Child) Ended() bool {
	select {
	case <-c.ended:
		return true
	default:
		return false
	}
}

// Until waits until something holds. The error says that the process has ended or ctx has, and what
// was waited for.
func (c *Child) Until(ctx context.Context, what string, holds func() bool) error {
	err := until(ctx, c.ended, holds)
	switch {
	case errors.Is(err, os.ErrProcessDone):
		return fmt.Errorf("%v ended (%v) before it %s:\n%s", c.Args, c.ProcessState, what, c.Log.End(logShown))
	case err != nil:
		return fmt.Errorf("wait until %v %s: %w", c.Args, what, err)
	}
	return nil
}

// until waits until something holds. The error is os.ErrProcessDone, or that of ctx.
func until(ctx context.Context, ended <-chan struct{}, holds func() bool) error {
	for !holds() {
		select {
		case <-ended:
			return os.ErrProcessDone
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Millisecond):
		}
	}
	return nil
}

// logShown bounds how much of a log is in an error.
const logShown = 256 << 10

// AwaitPort waits until something listens at an address.
func (c *Child) AwaitPort(ctx context.Context, addr string) error {
	return c.Until(ctx, "listens at "+addr, func() bool {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	})
}

// Kill kills the process group, unless the process has ended, and waits for its end.
func (c *Child) Kill() {
	if !c.Ended() {
		_ = syscall.Kill(-c.Pid(), syscall.SIGKILL) // it may have ended
	}
	<-c.ended
}

// Freeze stops a process with SIGSTOP and returns when none of its threads runs. The signal alone is
// not enough: on a busy machine the process goes on until the thread that has been chosen to take the
// signal gets a processor. SIGCONT ends it.
func Freeze(ctx context.Context, pid int) error {
	err := syscall.Kill(pid, syscall.SIGSTOP)
	if err == nil {
		err = until(ctx, nil, func() bool { return frozen(pid) })
	}
	if err != nil {
		return fmt.Errorf("freeze process %d: %w", pid, err)
	}
	return nil
}

// frozen reports whether no thread of a process runs: it is stopped, or has ended.
func frozen(pid int) bool {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	for _, path := range threads {
		stat, _ := os.ReadFile(path)
		if _, state, found := strings.Cut(string(stat), ") "); found && !strings.ContainsAny(state[:1], "TZX") {
			return false
		}
	}
	return true
}

// Children returns the living children that the first thread of a process has started.
func Children(pid int) (all []int) {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	for field := range strings.FieldsSeq(string(text)) {
		if id, err := strconv.Atoi(field); err == nil {
			all = append(all, id)
		}
	}
	return all
}

// SignalAll sends a signal to the process and its children, whichever process group they are in, and
// returns when those have stopped or ended that it stops or kills.
func (c *Child) SignalAll(ctx context.Context, signal syscall.Signal) (err error) {
	send := func(pid int) error { return syscall.Kill(pid, signal) }
	switch signal {
	case syscall.SIGSTOP:
		send = func(pid int) error { return Freeze(ctx, pid) }
		err = send(c.Pid()) // first: it starts no others meanwhile
	case syscall.SIGKILL:
		_ = Freeze(ctx, c.Pid()) // likewise; it may have ended
		defer c.Kill()
	default:
		err = send(c.Pid())
	}
	for _, pid := range Children(c.Pid()) {
		if e := send(pid); !errors.Is(e, syscall.ESRCH) { // it may have ended
			err = errors.Join(err, e)
		}
	}
	return err
}

// CredentialOf returns what a command's SysProcAttr needs for it to run as a user.
func CredentialOf(name string) (*syscall.Credential, error) {
	u, err := user.Lookup(name)
	if err != nil {
		return nil, err
	}
	uid, uidErr := strconv.ParseUint(u.Uid, 10, 32)
	gid, gidErr := strconv.ParseUint(u.Gid, 10, 32)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, errors.Join(uidErr, gidErr)
}
