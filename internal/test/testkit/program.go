package testkit

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"weir/internal/test/process"
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
// Timeout: a test may take longer than one of its waits.
func Command(t testing.TB, env []string, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 4*Timeout)
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

// ServiceCommand is Command for a program that listens at a free port of 127.0.0.1, unless env says otherwise.
func ServiceCommand(t testing.TB, env []string, args ...string) *exec.Cmd {
	t.Helper()
	return Command(t, append([]string{"BIND", "127.0.0.1", "PORT", "0"}, env...), args...)
}

// FindOrSkip returns the path of a program, as process.Find does. Without it the test is skipped; on a machine for
// continuous integration it fails.
func FindOrSkip(t testing.TB, name string, folders ...string) string {
	t.Helper()
	path, err := process.Find(name, folders...)
	SkipIfMissing(t, err)
	return path
}

// SkipIfMissing skips the test if err says that a program is not installed, and fails it on a machine for
// continuous integration.
func SkipIfMissing(t testing.TB, err error) {
	t.Helper()
	if !errors.Is(err, exec.ErrNotFound) {
		return
	}
	if os.Getenv("CI") == "true" {
		t.Fatalf("%v: make tools installs it", err)
	}
	t.Skipf("%v: make tools installs it", err)
}

// BuildOrSkip builds programs from the modules that a folder's go.mod names, and returns their folder. If that fails,
// the test is skipped; on a machine for continuous integration it fails.
func BuildOrSkip(t testing.TB, folder string, packages ...string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	args := append([]string{"build", "-C", folder, "-o", dir + string(filepath.Separator)}, packages...)
	if out, err := exec.CommandContext(t.Context(), "go", args...).CombinedOutput(); err != nil {
		report := t.Skipf
		if os.Getenv("CI") == "true" {
			report = t.Fatalf
		}
		report("go %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return dir
}

// InUserNamespace makes a command run in a user namespace that maps no user, where each user id is
// reported as 65534. The test is skipped if this machine allows none.
func InUserNamespace(t testing.TB, cmd *exec.Cmd) {
	t.Helper()
	probe := exec.Command("/proc/self/exe", "-test.list", "^$")
	probe.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER}
	if err := probe.Run(); err != nil {
		t.Skip("this machine allows no user namespaces:", err)
	}
	cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWUSER
}

// RequireExit runs a command to its end, fails unless it has the exit status, and returns its output.
func RequireExit(t testing.TB, cmd *exec.Cmd, status int) (stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if got := cmd.ProcessState.ExitCode(); got != status {
		t.Errorf("%v: exit status %d (%v), want %d\n%s%s", cmd.Args[1:], got, err, status, &out, &errs)
	}
	return out.String(), errs.String()
}

// A Log is a process.Log.
type Log = process.Log

// A Program is a process that runs during a test.
type Program struct {
	*process.Child
	Endpoint // set by Launch
}

// logEnd is how much of the log of a program a test that fails shows.
const logEnd = 4 << 10

// Start starts a program. It is killed when the test ends. If the test fails, it shows the end of the log.
func Start(t testing.TB, cmd *exec.Cmd) *Program {
	t.Helper()
	p := &Program{Child: Must(process.Start(cmd))(t), Endpoint: Endpoint{T: t}}
	t.Cleanup(func() {
		p.Kill()
		if t.Failed() {
			t.Logf("%s logged:\n%s", filepath.Base(cmd.Path), p.Log.End(logEnd))
		}
	})
	return p
}

// Context returns a context that ends after Timeout.
func Context(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), Timeout)
	t.Cleanup(cancel)
	return ctx
}

// StartAt starts a program and waits until it listens at an address.
func StartAt(t testing.TB, cmd *exec.Cmd, addr string) *Program {
	t.Helper()
	p := Start(t, cmd)
	p.Addr = addr
	if err := p.AwaitPort(Context(t), addr); err != nil {
		t.Fatal(err)
	}
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

// Status waits for the end of the program and returns its exit status. If that takes more than four
// times Timeout, as long as Command lets a program run, it kills the program and fails.
func (p *Program) Status() int {
	p.T.Helper()
	select {
	case <-p.Done():
	case <-time.After(4 * Timeout):
		p.Kill()
		p.T.Fatalf("%v has not ended after %v", p.Args, 4*Timeout)
	}
	return p.ProcessState.ExitCode()
}

// RequireExit waits for the end of the program and fails unless it has the exit status.
func (p *Program) RequireExit(status int) {
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
	p.RequireExit(0)
}

// Freeze is process.Freeze.
func Freeze(t testing.TB, pid int) {
	t.Helper()
	if err := process.Freeze(Context(t), pid); err != nil {
		t.Fatal(err)
	}
}
