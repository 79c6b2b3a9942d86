// Package rig starts and watches programs for experiments: ours and their
// peers, on loopback, ended when the experiment ends.
package rig

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// stopMax is how long a program may take to end before it is killed.
const stopMax = 30 * time.Second

// startMax is how long a program may take until it answers.
const startMax = 30 * time.Second

// A Process is a running program.
//
// Safe for concurrent use: exec.Cmd is waited for by one goroutine.
type Process struct {
	Name string
	// Foreign says that the program may die of the signal that ends it, which
	// ours must not.
	Foreign bool

	cmd  *exec.Cmd
	log  *tail
	done chan struct{}
	err  error
}

// Start runs a command with env added to ours. Its output is kept, the last of
// it at least, and shown when it fails.
func Start(name string, env []string, command ...string) (*Process, error) {
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Env = append(os.Environ(), env...)
	cmd.SysProcAttr = new(syscall.SysProcAttr)
	return startCommand(name, cmd)
}

// startCommand starts a command whose SysProcAttr is set.
func startCommand(name string, cmd *exec.Cmd) (*Process, error) {
	// Ctrl-C reaches us, and we end our programs in order.
	cmd.SysProcAttr.Setpgid, cmd.SysProcAttr.Pdeathsig = true, syscall.SIGKILL
	p := &Process{Name: name, cmd: cmd, log: new(tail), done: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = p.log, p.log
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go func() {
		p.err = cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

// StartPeer starts a program of others that listens on addr, and waits until it
// does.
func StartPeer(ctx context.Context, name, addr string, command ...string) (*Process, error) {
	p, err := StartServing(ctx, name, addr, command...)
	if err == nil {
		p.Foreign = true
	}
	return p, err
}

// await is AwaitPort for a process that is no use when it does not come: it is ended
// then.
func (p *Process) await(ctx context.Context, addr string) error {
	err := p.AwaitPort(ctx, addr)
	if err != nil {
		p.Kill()
	}
	return err
}

// StartServing starts a command that listens on addr, and waits until it does.
func StartServing(ctx context.Context, name, addr string, command ...string) (*Process, error) {
	p, err := Start(name, nil, command...)
	if err != nil {
		return nil, err
	}
	return p, p.await(ctx, addr)
}

// Pid is the process's id.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Output is the last of what the program printed.
func (p *Process) Output() string { return p.log.String() }

// Kill ends the process at once, as a crash would, and waits for it.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

// Stop ends the process in order, and kills it when that takes too long.
func (p *Process) Stop() error {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(stopMax):
		p.Kill()
		return fmt.Errorf("%s did not end within %v and was killed", p.Name, stopMax)
	}
	if p.err != nil && !(p.Foreign && p.diedOf(syscall.SIGTERM)) {
		return fmt.Errorf("%s ended with %w; its last words:\n%s", p.Name, p.err, p.Output())
	}
	return nil
}

// diedOf says whether a signal ended the process.
func (p *Process) diedOf(signal syscall.Signal) bool {
	status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == signal
}

// AwaitPort waits until the process accepts connections on addr.
func (p *Process) AwaitPort(ctx context.Context, addr string) error {
	ctx, cancel := context.WithTimeout(ctx, startMax)
	defer cancel()
	for {
		c, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
		if err == nil {
			return c.Close()
		}
		select {
		case <-p.done:
			return fmt.Errorf("%s ended while it was started: %v\n%s", p.Name, p.err, p.Output())
		case <-ctx.Done():
			return fmt.Errorf("%s does not listen on %s: %w", p.Name, addr, err)
		case <-time.After(time.Millisecond):
		}
	}
}

// Binary is the path of one of our programs: beside the one that runs.
func Binary(name string) (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	path := filepath.Join(filepath.Dir(self), name)
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("%s is not beside %s; run make build first", name, filepath.Base(self))
	}
	return path, nil
}

// clockTick is the unit of CPU time in /proc: USER_HZ, 100 on every Linux.
const clockTick = 10 * time.Millisecond

// CPU is the processor time used by a process and its children, those that have ended and
// been waited for too.
func CPU(pid int) (time.Duration, error) {
	total, err := cpuOf(pid)
	if err != nil {
		return 0, err
	}
	for _, child := range children(pid) {
		if used, err := cpuOf(child); err == nil {
			total += used
		}
	}
	return total, nil
}

// children are the processes that a process has started with its first thread and that
// live.
func children(pid int) (all []int) {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	for field := range strings.FieldsSeq(string(text)) {
		if id, err := strconv.Atoi(field); err == nil {
			all = append(all, id)
		}
	}
	return all
}

func cpuOf(pid int) (time.Duration, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// The name in parentheses may hold spaces: count from behind it.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	const user, childrenSystem = 11, 14
	if len(fields) <= childrenSystem {
		return 0, errors.New("read processor time: /proc has another form")
	}
	var sum int64
	for _, field := range fields[user : childrenSystem+1] { // user, system, and both of children
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return time.Duration(sum) * clockTick, nil
}

// RSS is the resident memory of a process in bytes.
func RSS(pid int) (int64, error) { return memory(pid, "VmRSS:") }

// Anon is the part of RSS that is no file's, in bytes.
func Anon(pid int) (int64, error) { return memory(pid, "RssAnon:") }

func memory(pid int, field string) (int64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(status)) {
		if text, ok := strings.CutPrefix(line, field); ok {
			kb, err := strconv.ParseInt(strings.Fields(text)[0], 10, 64)
			return kb << 10, err
		}
	}
	return 0, fmt.Errorf("read resident memory: no %s", field)
}

// tail keeps the last of what is written to it.
//
// Safe for concurrent use: mu guards the text.
type tail struct {
	mu   sync.Mutex
	text []byte
}

// tailMax is how much of a program's output is kept.
const tailMax = 256 << 10

var _ io.Writer = (*tail)(nil)

// Write takes in output.
func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, b...)
	if over := len(t.text) - tailMax; over > 0 {
		t.text = append(t.text[:0], t.text[over:]...)
	}
	return len(b), nil
}

// String is what has been kept.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.text)
}
