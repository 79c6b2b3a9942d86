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
	"time"
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

// Service is Command for a program that listens at a free port of 127.0.0.1, unless env says otherwise.
func Service(t testing.TB, env []string, args ...string) *exec.Cmd {
	t.Helper()
	return Command(t, append([]string{"BIND", "127.0.0.1", "PORT", "0"}, env...), args...)
}

// Installed returns the path of a program, which may be in one of the folders. Without it the test is skipped;
// on a machine for continuous integration it fails.
func Installed(t testing.TB, name string, folders ...string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	for _, folder := range folders {
		if found, _ := filepath.Glob(filepath.Join(folder, name)); err != nil && len(found) > 0 {
			return found[len(found)-1] // the latest version
		}
	}
	if err != nil && os.Getenv("CI") == "true" {
		t.Fatalf("%v: make tools installs it", err)
	} else if err != nil {
		t.Skipf("%v: make tools installs it", err)
	}
	return path
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
	Endpoint     // set by Launch
	Log      Log // standard output, and standard error unless Cmd redirects it
	ended    chan struct{}
}

// logEnd is how much of the log of a program a test that fails shows.
const logEnd = 4 << 10

// Start starts a program. It is killed when the test ends. If the test fails, it shows the end of the log.
func Start(t testing.TB, cmd *exec.Cmd) *Program {
	t.Helper()
	p := &Program{Cmd: cmd, Endpoint: Endpoint{T: t}, ended: make(chan struct{})}
	cmd.Stdout = &p.Log
	if cmd.Stderr == nil {
		cmd.Stderr = &p.Log
	}
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = new(syscall.SysProcAttr)
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = cmd.Wait()
		close(p.ended)
	}()
	t.Cleanup(func() {
		p.Kill()
		if text := p.Log.String(); t.Failed() {
			t.Logf("%s logged:\n%s", filepath.Base(cmd.Path), text[max(0, len(text)-logEnd):])
		}
	})
	return p
}

// StartAt starts a program and waits until it listens at an address.
func StartAt(t testing.TB, cmd *exec.Cmd, addr string) *Program {
	t.Helper()
	p := Start(t, cmd)
	p.Addr = addr
	Eventually(t, fmt.Sprint(cmd.Args, " listens"), func() bool {
		if p.Ended() {
			t.Fatalf("%v has ended:\n%s", cmd.Args, &p.Log)
		}
		return p.Listens()
	})
	return p
}

// Launch starts a program and waits for a line of its log that has ready before its address.
func Launch(t testing.TB, cmd *exec.Cmd, ready string) *Program {
	t.Helper()
	p := Start(t, cmd)
	_, rest, _ := strings.Cut(p.Logged(ready), ready)
	p.Addr, _, _ = strings.Cut(rest, " ")
	return p
}

// Logged waits for a line of the log that contains part, and returns it.
func (p *Program) Logged(part string) string {
	p.T.Helper()
	return p.LoggedTimes(part, 1)
}

// LoggedTimes waits for the n-th line of the log that contains part. It fails if the program
// ends before.
func (p *Program) LoggedTimes(part string, n int) string {
	p.T.Helper()
	Eventually(p.T, part+" is logged", func() bool {
		ended := p.Ended() // then all lines are there
		if len(p.Log.Lines(part)) >= n {
			return true
		}
		if ended {
			p.T.Fatalf("the program has ended and has not logged %d times: %s\n%s", n, part, &p.Log)
		}
		return false
	})
	return p.Log.Lines(part)[n-1]
}

// Ended reports whether the program has ended.
func (p *Program) Ended() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// Status waits for the end of the program and returns its exit status. If that takes more than four
// times Patience, as long as Command lets a program run, it kills the program and fails.
func (p *Program) Status() int {
	p.T.Helper()
	select {
	case <-p.ended:
	case <-time.After(4 * Patience):
		p.Kill()
		p.T.Fatalf("%v has not ended after %v", p.Args, 4*Patience)
	}
	return p.ProcessState.ExitCode()
}

// Ends waits for the end of the program and fails unless it has the exit status.
func (p *Program) Ends(status int) {
	p.T.Helper()
	if got := p.Status(); got != status {
		p.T.Errorf("exit status %d, want %d", got, status)
	}
}

// Signal sends a signal to the program, which must be running.
func (p *Program) Signal(signal syscall.Signal) {
	p.T.Helper()
	if err := p.Process.Signal(signal); err != nil {
		p.T.Fatal(err)
	}
}

// Terminate ends the program by SIGTERM and fails unless its exit status is 0.
func (p *Program) Terminate() {
	p.T.Helper()
	p.Signal(syscall.SIGTERM)
	p.Ends(0)
}

// Kill kills the program, unless it has ended, and waits for its end.
func (p *Program) Kill() {
	_ = p.Process.Kill()
	<-p.ended
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
