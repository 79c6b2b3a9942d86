package service

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"syscall"
	"testing"

	"weir/internal/program/journal"
	"weir/internal/test/testkit"
)

// outcome is what a run left behind.
type outcome struct {
	status         int
	stdout, stderr string
}

// start runs p with the arguments and "NAME=value" pairs.
func start(t *testing.T, p Program, signals <-chan os.Signal, args []string, env ...string) outcome {
	t.Helper()
	before := slog.Default()
	defer slog.SetDefault(before)
	var stdout, stderr bytes.Buffer
	status := run(p, process{
		args: args, env: environment(env...), stdout: &stdout, stderr: &stderr, signals: signals,
		environ: env, exit: func(status int) { t.Errorf("exit at once with %d", status) },
	})
	return outcome{status, stdout.String(), stderr.String()}
}

// doing returns a program that does only this.
func doing(do func(ctx context.Context, e *Env) error) Program {
	return Program{Name: "proxy", LogName: "Proxy", Port: 8082, Commands: []string{"run"}, Run: do}
}

func nothing(context.Context, *Env) error { return nil }

func TestRunStarted(t *testing.T) {
	f := func(want string, env ...string) {
		t.Helper()
		o := start(t, doing(nothing), nil, nil, env...)
		if o.status != 0 || o.stderr != "" {
			t.Errorf("%v: status %d, stderr %q", env, o.status, o.stderr)
		}
		line := regexp.MustCompile(`^\[\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ\] (.*)\n$`).FindStringSubmatch(o.stdout)
		if line == nil || line[1] != want {
			t.Errorf("%v: have %q, want %q", env, o.stdout, want)
		}
	}
	f("INFO Proxy - Started version=" + Version())
	f("INFO Proxy - Started version="+Version()+" PORT=9000 BIND=127.0.0.1", "PORT=9000", "BIND=127.0.0.1")
	f("INFO Proxy - Started version="+Version()+" PORT=9001", "SERVER_PORT=9001")
	f("INFO Proxy - Started version="+Version()+" PORT=9000", "SERVER_PORT=9001", "PORT=9000")
	f("INFO Proxy - Started version="+Version(), "PORT=8082", "LOG_LEVEL=info")
}

func TestRunEnv(t *testing.T) {
	o := start(t, doing(func(_ context.Context, e *Env) error {
		fmt.Fprintf(e.Stdout, "%s|%v|%t\n", e.Addr, e.Args, e.Health.Ready())
		e.Logger("Part").Info("Works")
		e.Logger("Part").Debug("Too fine")
		slog.Warn("From a library")
		return nil
	}), nil, []string{"-port", "0", "-bind", "::1", "run", "x"})
	testkit.Contains(t, o.stdout,
		"\n[::1]:0|[run x]|false\n", " INFO Part - Works\n", " WARN Proxy - From a library\n")
	if strings.Contains(o.stdout, "Too fine") {
		t.Errorf("debug lines at level info: %q", o.stdout)
	}
}

// A program that serves nothing has no port to set.
func TestBuildInfo(t *testing.T) {
	var text strings.Builder
	start(t, doing(func(_ context.Context, e *Env) error {
		e.Metrics.Write(&text)
		return nil
	}), nil, nil)
	want := fmt.Sprintf("\nweir_build_info{version=%q,goversion=%q} 1\n", Version(), runtime.Version())
	if !strings.Contains(text.String(), want) {
		t.Errorf("the metrics lack %s:\n%s", want, text.String())
	}
}

func TestRunWithoutPort(t *testing.T) {
	p := doing(func(_ context.Context, e *Env) error { return errors.New("addr=" + e.Addr) })
	p.Port = 0
	if o := start(t, p, nil, nil); o.stderr != "proxy: addr=\n" {
		t.Errorf("stderr %q", o.stderr)
	}
	if o := start(t, p, nil, []string{"-port", "1"}); o.status != 2 {
		t.Errorf("status %d with -port", o.status)
	}
}

func TestRunStatus(t *testing.T) {
	f := func(status int, stderr string, err error) {
		t.Helper()
		o := start(t, doing(func(context.Context, *Env) error { return err }), nil, nil)
		if o.status != status || o.stderr != stderr {
			t.Errorf("%v: status %d, stderr %q; want %d, %q", err, o.status, o.stderr, status, stderr)
		}
	}
	f(0, "", nil)
	f(1, "proxy: listen: address already in use\n", errors.New("listen: address already in use"))
	f(1, "proxy: a; b\n", errors.Join(errors.New("a"), errors.New("b")))
	f(1, "proxy: context canceled\n", context.Canceled) // nobody asked it to stop
	f(2, "proxy: RULES_FILE: \"x\" cannot be read; allowed: YAML or JSON\n",
		fmt.Errorf("%w", &SettingError{"RULES_FILE", "x", "cannot be read", "YAML or JSON"}))
	f(2, "proxy: TLS_CERT: \"/x\" cannot be used: read certificate: is a folder\n",
		&SettingError{"TLS_CERT", "/x", "cannot be used: read certificate: /x: is a folder", ""})
	f(2, "proxy: TLS_CERT: \"/x\" cannot be used: open: is a folder\n",
		&SettingError{"TLS_CERT", "/x", "cannot be used: open /x: is a folder", ""})
	f(2, "proxy: run wants a file; -help lists the settings\n", &UsageError{"run wants a file"})
	f(3, "", &ExitError{Status: 3})
	f(4, "proxy: p99 too high\n", &ExitError{Status: 4, Err: errors.New("p99 too high")})
}

func TestRunUsage(t *testing.T) {
	never := doing(func(context.Context, *Env) error { return errors.New("was run") })
	f := func(status int, stdout, stderr string, args ...string) {
		t.Helper()
		o := start(t, never, nil, args)
		if o.status != status || !strings.HasPrefix(o.stdout, stdout) || o.stderr != stderr || stdout == "" &&
			o.stdout != "" {
			t.Errorf("%v: %+v", args, o)
		}
	}
	f(0, "proxy\n\nEvery setting is", "", "-help")
	f(0, "proxy\n\nEvery setting is", "", "-h")
	f(0, "proxy "+Version()+" (go1.", "", "-version")
	f(2, "", "proxy: PORT: \"x\" is not a whole number; allowed: 0 … 65535\n", "-port", "x")
	f(2, "", "proxy: PORT: \"65536\" is out of range; allowed: 0 … 65535\n", "-server-port", "65536")
	f(2, "", "proxy: LOG_LEVEL: \"loud\" is unknown; allowed: debug, info, warn, error\n", "-log-level", "loud")
	f(2, "", "proxy: flag provided but not defined: -nope; -help lists the settings\n", "-nope")
}

func TestRunSignals(t *testing.T) {
	signals := make(chan os.Signal, 1)
	o := start(t, doing(func(ctx context.Context, e *Env) error {
		e.Health.SetReady(true)
		signals <- syscall.SIGTERM
		<-ctx.Done()
		e.Health.SetReady(true) // a target came back meanwhile
		if e.Health.Ready() {
			t.Error("ready while draining")
		}
		return ctx.Err()
	}), signals, nil)
	if o.status != 0 || o.stderr != "" {
		t.Errorf("%+v", o)
	}
	if !strings.Contains(o.stdout, "INFO Proxy - Stopping signal=terminated\n") {
		t.Errorf("stdout %q", o.stdout)
	}
}

// Whoever sends a second signal does not want to wait for Run.
func TestRunSecondSignal(t *testing.T) {
	before := slog.Default()
	defer slog.SetDefault(before)
	signals := make(chan os.Signal, 2)
	exited := make(chan int)
	release := make(chan struct{})
	var main sync.WaitGroup
	main.Go(func() {
		run(doing(func(context.Context, *Env) error {
			signals <- syscall.SIGINT
			signals <- syscall.SIGINT
			<-release
			return nil
		}), process{
			env: environment(), stdout: io.Discard, stderr: io.Discard, signals: signals,
			exit: func(status int) { exited <- status },
		})
	})
	if status := <-exited; status != 130 {
		t.Errorf("exit %d, want 130", status)
	}
	close(release)
	main.Wait()
}

func TestLogFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "proxy.log")
	o := start(t, doing(func(_ context.Context, e *Env) error {
		e.Logger("Part").Info("Works")
		return nil
	}), nil, nil, "LOG_FILE="+file)
	text, err := os.ReadFile(file)
	if err != nil || string(text) != o.stdout || !strings.Contains(o.stdout, "INFO Part - Works") {
		t.Errorf("file %q, %v; stdout %q", text, err, o.stdout)
	}

	o = start(t, doing(nothing), nil, nil, "LOG_FILE="+file+"/x")
	want := fmt.Sprintf(
		"proxy: LOG_FILE: %q cannot be written: not a directory; allowed: a file in a directory that exists\n", file+"/x")
	if o.status != 2 || o.stderr != want || o.stdout != "" {
		t.Errorf("%+v", o)
	}
}

// The file is put aside at 10 MB; stdout gets everything.
func TestLogFileRotates(t *testing.T) {
	dir := t.TempDir()
	long := strings.Repeat("x", 1<<20)
	o := start(t, doing(func(_ context.Context, e *Env) error {
		for range 11 {
			e.Logger("Part").Info(long)
		}
		return nil
	}), nil, nil, "LOG_FILE="+filepath.Join(dir, "proxy.log"))
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != 2 {
		t.Fatalf("%v, %v", files, err)
	}
	var total int64
	for _, f := range files {
		info, err := f.Info()
		if err != nil || info.Size() > journal.FileMegabytes<<20 {
			t.Errorf("%s has %d bytes, %v", f.Name(), info.Size(), err)
		}
		total += info.Size()
	}
	if total != int64(len(o.stdout)) {
		t.Errorf("%d bytes in files, %d on stdout", total, len(o.stdout))
	}
}

func TestLogJSON(t *testing.T) {
	o := start(t, doing(nothing), nil, nil, "LOG_FORMAT=json", "PORT=1")
	if !strings.HasPrefix(o.stdout, `{"time":"`) || !strings.Contains(o.stdout, `"component":"Proxy"`) ||
		!strings.Contains(o.stdout, `"PORT":"1"`) {
		t.Errorf("stdout %q", o.stdout)
	}
}

func TestPortInUse(t *testing.T) {
	l := testkit.Listen(t)
	defer func() { _ = l.Close() }()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	o := start(t, doing(func(_ context.Context, e *Env) error {
		_, err := net.Listen("tcp", e.Addr)
		return err
	}), nil, nil, "BIND=127.0.0.1", "PORT="+port)
	if o.status != 1 || o.stderr != "proxy: port "+port+" is taken: set PORT\n" {
		t.Errorf("%+v", o)
	}
}

func TestExitError(t *testing.T) {
	cause := errors.New("p99 too high")
	err := error(&ExitError{Status: 4, Err: cause})
	if !errors.Is(err, cause) || err.Error() != cause.Error() {
		t.Errorf("the cause is lost: %v", err)
	}
	if text := (&ExitError{Status: 3}).Error(); text != "exit status 3" {
		t.Errorf("have %s", text)
	}
}

// An Env of a test needs no logger.
func TestLoggerWithoutLog(t *testing.T) {
	new(Env).Logger("Part").Error("goes nowhere")
}

func TestVersionOf(t *testing.T) {
	f := func(want, module string, settings ...debug.BuildSetting) {
		t.Helper()
		info := &debug.BuildInfo{Main: debug.Module{Version: module}, Settings: settings}
		if have := versionOf(info); have != want {
			t.Errorf("%q %v: have %s, want %s", module, settings, have, want)
		}
	}
	revision := debug.BuildSetting{Key: "vcs.revision", Value: "0123456789abcdef0123"}
	f("dev", "")
	f("dev", "(devel)")
	f("v1.2.3", "v1.2.3", revision)
	f("0123456789ab", "(devel)", revision)
	f("0123456789ab-dirty", "(devel)", revision, debug.BuildSetting{Key: "vcs.modified", Value: "true"})
	f("0123456789ab", "(devel)", revision, debug.BuildSetting{Key: "vcs.modified", Value: "false"})
}
