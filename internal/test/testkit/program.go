package testkit

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// asProgram is the environment variable that makes a test binary run the tested program.
const asProgram = "WEIR_TEST_AS_PROGRAM"

// Main runs the tests of a package; call it from TestMain. If the test binary was started by
// Command, Main runs program instead and exits.
func Main(m *testing.M, program func()) {
	if os.Getenv(asProgram) != "" {
		program()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// Command returns a command that runs the program of Main in another process. Its environment
// is env, alternating names and values. It is killed when the test ends, or after four times
// Patience: a test may take longer than one of its waits.
func Command(t testing.TB, env []string, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 4*Patience)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, self, args...)
	// With the race detector, a process sleeps for a second before it exits by default.
	cmd.Env = []string{asProgram + "=1", "GORACE=atexit_sleep_ms=0"}
	for i := 0; i < len(env); i += 2 {
		cmd.Env = append(cmd.Env, env[i]+"="+env[i+1])
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd
}

// Unmapped makes a command run in a user namespace that maps no user, where each user id is
// reported as 65534. The test is skipped if this machine allows none.
func Unmapped(t testing.TB, cmd *exec.Cmd) {
	t.Helper()
	probe := exec.Command("/proc/self/exe", "-test.list", "^$")
	probe.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER}
	if err := probe.Run(); err != nil {
		t.Skip("this machine allows no user namespaces:", err)
	}
	cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWUSER
}

// Ends runs a command to its end, fails unless it has the exit status, and returns its output.
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
	Log   Log // standard output, and standard error unless Cmd redirects it
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

// LoggedTimes waits for the n-th line of the log that contains part. It fails if the program
// ends before.
func (p *Program) LoggedTimes(part string, n int) string {
	p.t.Helper()
	ended := false
	Eventually(p.t, part+" is logged", func() bool {
		if ended && len(p.Log.Lines(part)) < n {
			p.t.Fatalf("the program has ended and has not logged %d times: %s\n%s", n, part, &p.Log)
		}
		select {
		case <-p.ended: // check once more, as the last lines are there now
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

// Freeze stops a process with SIGSTOP and returns when none of its threads runs. The signal alone is
// not enough: on a busy machine the process goes on until the thread that has been chosen to take the
// signal gets a processor.
func Freeze(t testing.TB, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	Eventually(t, "the process stops", func() bool {
		threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
		for _, path := range threads {
			stat, _ := os.ReadFile(path)
			if _, state, _ := strings.Cut(string(stat), ") "); !strings.HasPrefix(state, "T") {
				return false
			}
		}
		return len(threads) > 0
	})
}

// Stop ends the program by a signal and returns its exit status.
func (p *Program) Stop(signal syscall.Signal) int {
	_ = p.Process.Signal(signal)
	return p.Status()
}
