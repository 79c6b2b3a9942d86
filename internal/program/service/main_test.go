package service

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"weir/internal/test/testkit"
)

func TestMain(m *testing.M) {
	testkit.Main(m, func() {
		Main(Program{Name: "child", LogName: "Child", Port: 8082, Commands: []string{"run"}, Run: stubborn})
	})
}

// stubborn says when it runs and when it is asked to stop; with BIND=hang it then
// goes on regardless.
func stubborn(ctx context.Context, e *Env) error {
	e.OnReload(func() error { return errors.New("rules.yaml: line 3: no such key") }, "rules", "clients")
	e.OnReload(func() error { return nil }, "certificates")
	e.OnReload(func() error { return nil }, "events")
	fmt.Fprintln(e.Stdout, "running")
	<-ctx.Done()
	fmt.Fprintln(e.Stdout, "asked")
	var metrics bytes.Buffer
	e.Metrics.Write(&metrics)
	_, dropped, _ := strings.Cut(metrics.String(), `weir_log_dropped_total{output="stdout"} `)
	if dropped, _, _ = strings.Cut(dropped, "\n"); dropped != "0" {
		e.Logger("Child").Info("Dropped", "lines", dropped)
	}
	if strings.HasPrefix(e.Addr, "hang:") {
		select {}
	}
	return nil
}

// A real process, real signals: the next one is sent with each line that says
// "running", "asked" or "Reloaded".
func TestMainSignals(t *testing.T) {
	const (
		failed = "ERROR Child - Reload failed, the previous version stays in use part=\"rules, clients\" " +
			"reason=\"rules.yaml: line 3: no such key\"\n"
		reloaded = "INFO Child - Reloaded rules=failed clients=failed certificates=read events=read log=none\n"
		atOnce   = "WARN Child - Exiting immediately after the second signal signal="
	)
	f := func(status int, want, args string, signals ...syscall.Signal) {
		t.Helper()
		child := testkit.Command(t, nil, strings.Fields(args)...)
		stdout := testkit.Must(child.StdoutPipe())(t)
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		var said strings.Builder
		lines := bufio.NewScanner(stdout)
		for lines.Scan() { // until the child closes its end
			text := lines.Text()
			if (text == "running" || text == "asked" || strings.Contains(text, " - Reloaded ")) && len(signals) > 0 {
				_ = child.Process.Signal(signals[0])
				signals = signals[1:]
			}
			_, text, _ = strings.Cut(text, "] ") // the time
			fmt.Fprintln(&said, text)
		}
		err := child.Wait()
		if have := child.ProcessState.ExitCode(); have != status || !strings.Contains(said.String(), want) {
			t.Errorf("%s: exit status %d, %v; want %d and %q in\n%s", args, have, err, status, want, &said)
		}
	}
	f(0, "Stopping signal=terminated", "", syscall.SIGTERM)
	f(0, "Stopping signal=interrupt", "", syscall.SIGINT)
	f(130, atOnce+"interrupt", "-bind hang", syscall.SIGTERM, syscall.SIGINT)
	f(130, atOnce+"terminated", "-bind hang", syscall.SIGINT, syscall.SIGTERM)
	f(0, failed+reloaded+failed+reloaded, "", syscall.SIGHUP, syscall.SIGHUP, syscall.SIGTERM)
	f(130, reloaded+atOnce, "-bind hang", syscall.SIGTERM, syscall.SIGHUP, syscall.SIGTERM)
	f(0, "Stopping signal=hangup", "run file", syscall.SIGHUP) // a command ends with its terminal
}

// A program whose log has no reader any more goes on, and counts the lines that it drops.
func TestMainWithoutReader(t *testing.T) {
	child := testkit.Command(t, []string{"LOG_FILE", filepath.Join(t.TempDir(), "log")})
	stdout := testkit.Must(child.StdoutPipe())(t)
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(stdout)
	for lines.Scan() && lines.Text() != "running" {
	}
	stdout.Close()
	logged := func(part string) {
		testkit.Eventually(t, part+" is logged", func() bool {
			text, _ := os.ReadFile(strings.TrimPrefix(child.Env[len(child.Env)-1], "LOG_FILE="))
			return strings.Contains(string(text), part)
		})
	}
	_ = child.Process.Signal(syscall.SIGHUP) // is answered by log lines
	logged("INFO Child - Reloaded")
	_ = child.Process.Signal(syscall.SIGTERM)
	if err := child.Wait(); err != nil {
		t.Errorf("%v, want exit status 0", err)
	}
	logged("INFO Child - Dropped lines=")
}

func TestMainHelp(t *testing.T) {
	if text, _ := testkit.RequireExit(t, testkit.Command(t, nil, "-help"), 0); !strings.HasPrefix(text,
		"child\n\nEvery setting") {
		t.Errorf("told %s", text)
	}
}
