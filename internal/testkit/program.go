package testkit

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// asProgram is the variable by which a test binary becomes the program that it tests.
const asProgram = "WEIR_TEST_AS_PROGRAM"

// Main runs a package's tests, from its TestMain. Started by Command the test binary
// runs program instead, and ends when it returns.
func Main(m *testing.M, program func()) {
	if os.Getenv(asProgram) != "" {
		program()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// Command is the program of Main as a process of its own, not started. Of the
// environment it sees env alone, names and values in turn. It is killed after Patience,
// and with the test.
func Command(t testing.TB, env []string, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, self, args...)
	// The race detector would have every process sleep for a second at its end.
	cmd.Env = []string{asProgram + "=1", "GORACE=atexit_sleep_ms=0"}
	for i := 0; i < len(env); i += 2 {
		cmd.Env = append(cmd.Env, env[i]+"="+env[i+1])
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd
}

// Ends runs a command to its end, fails unless it has the exit status, and returns what
// it wrote.
func Ends(t testing.TB, cmd *exec.Cmd, status int) (stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if got := cmd.ProcessState.ExitCode(); got != status {
		t.Errorf("%v: exit status %d (%v), want %d\n%s%s", cmd.Args[1:], got, err, status, &out, &errs)
	}
	return out.String(), errs.String()
}

// A Program is a process that runs during a test.
type Program struct {
	*exec.Cmd
	Log   Log // its standard output, and its standard error unless Cmd said otherwise
	t     testing.TB
	ended chan struct{}
}

// Start starts a program. It is killed when the test ends.
func Start(t testing.TB, cmd *exec.Cmd) *Program {
	t.Helper()
	p := &Program{Cmd: cmd, t: t, ended: make(chan struct{})}
	cmd.Stdout = &p.Log
	if cmd.Stderr == nil {
		cmd.Stderr = &p.Log
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = cmd.Wait()
		close(p.ended)
	}()
	t.Cleanup(func() { p.Stop(syscall.SIGKILL) })
	return p
}

// Logged waits for a line of the log that contains part, and returns it.
func (p *Program) Logged(part string) string {
	p.t.Helper()
	return p.LoggedTimes(part, 1)
}

// LoggedTimes waits for the n-th line of the log that contains part. It fails when the
// program ends without it.
func (p *Program) LoggedTimes(part string, n int) string {
	p.t.Helper()
	ended := false
	Eventually(p.t, part+" is logged", func() bool {
		if ended && len(p.Log.Lines(part)) < n {
			p.t.Fatalf("the program has ended and has not logged %d times: %s\n%s", n, part, &p.Log)
		}
		select {
		case <-p.ended: // look once more: these lines are the last
			ended = true
		default:
		}
		return len(p.Log.Lines(part)) >= n
	})
	return p.Log.Lines(part)[n-1]
}

// Status waits for the end of the program and returns its exit status. It is killed
// Patience after Command made it.
func (p *Program) Status() int {
	<-p.ended
	return p.ProcessState.ExitCode()
}

// Stop ends the program by a signal and returns its exit status.
func (p *Program) Stop(signal syscall.Signal) int {
	_ = p.Process.Signal(signal)
	return p.Status()
}
