// Package rig starts and watches programs for experiments: ours and their peers, on
// loopback. They end when the experiment ends.
//
// A [Lab] is one run of an [Experiment]: its report, its expectations, and what is to be cleaned up. A
// [Rig] is the running programs of a [Topology]: a target, proxies in front of it, and their store. A
// [Load] is sent by our load generator, at given times; [Wrk] loads a [ComparedProgram] as fast as it
// answers. A [Peer] is a program of others. A [DecisionServer] is a proxy that only decides, for
// sidecars (proxies that ask it) and for Envoy.
//
// Nearly every step of an experiment can fail, and a failure ends its part: [Check] panics, and the
// current [Catch] returns the error.
package rig

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"weir/internal/test/process"
)

// stopMax bounds the time that a program may take to end before it is killed.
const stopMax = 30 * time.Second

// startMax bounds the time until a started program answers.
const startMax = 30 * time.Second

// A Process is a running program.
//
// Safe for concurrent use, as its Child is.
type Process struct {
	*process.Child
	Name    string
	Foreign bool // the exit status after Stop does not matter; ours must be 0

	killed, stopped atomic.Bool // by us
}

// Start starts a command with env added to our environment. The end of its output is kept and
// shown if it fails.
func Start(name string, env []string, command ...string) (*Process, error) {
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Env = append(os.Environ(), env...)
	c, err := process.Start(cmd)
	return &Process{Child: c, Name: name}, err
}

// Kill kills the process, as in a crash, and waits for its end.
func (p *Process) Kill() {
	p.killed.Store(true)
	p.Child.Kill()
}

// Stop ends the process with SIGTERM, and kills it if that takes too long. It fails if the process
// has ended by itself, or ends with an error and is not foreign, but not if it was killed before.
func (p *Process) Stop() error {
	if p.killed.Load() {
		return nil
	}
	err := p.crashed()
	if p.stopped.Store(true); err != nil {
		return err
	}
	_ = p.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.Done():
	case <-time.After(stopMax):
		p.Kill()
		return fmt.Errorf("%s did not end within %v and was killed", p.Name, stopMax)
	}
	if p.Foreign {
		return nil
	}
	return p.failure()
}

// failure returns an error if the process, which has ended, has not succeeded.
func (p *Process) failure() error {
	if p.ProcessState.Success() {
		return nil
	}
	return fmt.Errorf("%s ended with %v; its output:\n%s", p.Name, p.ProcessState, p.Output())
}

// Output returns the end of the program's output.
func (p *Process) Output() string { return p.Log.End(outputMax) }

// outputMax bounds how much of a program's output is shown, in bytes.
const outputMax = 256 << 10

// crashed returns an error if the process has ended without having been killed or stopped. It is nil
// for one that could not be started.
func (p *Process) crashed() error {
	if p == nil || p.killed.Load() || p.stopped.Load() {
		return nil
	}
	if p.Ended() {
		return fmt.Errorf("%s ended by itself: %v; its output:\n%s", p.Name, p.ProcessState, p.Output())
	}
	return nil
}

// AwaitPort waits until the process accepts connections at addr.
func (p *Process) AwaitPort(ctx context.Context, addr string) error {
	ctx, cancel := context.WithTimeout(ctx, startMax)
	defer cancel()
	return p.Child.AwaitPort(ctx, addr)
}

// Binary returns the path of one of our programs, which is in the folder of the current one.
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

// CPU returns the CPU time of a process and its children, including those that have been
// waited for.
func CPU(pid int) (time.Duration, error) {
	total, err := cpuOf(pid)
	if err != nil {
		return 0, err
	}
	for _, child := range process.Children(pid) {
		if used, err := cpuOf(child); err == nil {
			total += used
		}
	}
	return total, nil
}

func cpuOf(pid int) (time.Duration, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// The name in parentheses may contain spaces, so fields are counted after it.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	const user, childrenSystem = 11, 14
	if len(fields) <= childrenSystem {
		return 0, errors.New("read CPU time: /proc/PID/stat has too few fields")
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

// RSS returns the resident memory of a process in bytes.
func RSS(pid int) (int64, error) { return memory(pid, "VmRSS:") }

// AnonRSS returns the anonymous part of RSS in bytes.
func AnonRSS(pid int) (int64, error) { return memory(pid, "RssAnon:") }

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
