package service

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// childVariable tells the test binary to be a program instead.
const childVariable = "WEIR_SERVICE_TEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) != "" {
		Main(Program{Name: "child", LogName: "Child", Run: stubborn})
	}
	os.Exit(m.Run())
}

// stubborn says when it runs and when it is asked to stop; with the argument
// "hang" it then goes on regardless.
func stubborn(ctx context.Context, e *Env) error {
	fmt.Fprintln(e.Stdout, "running")
	<-ctx.Done()
	fmt.Fprintln(e.Stdout, "asked")
	if len(e.Args) > 0 && e.Args[0] == "hang" {
		select {}
	}
	return nil
}

// A real process, real signals.
func TestMainEndsBySignals(t *testing.T) {
	f := func(status int, argument string, signals ...syscall.Signal) {
		t.Helper()
		executable, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		child := exec.CommandContext(t.Context(), executable, argument)
		child.Env = append(os.Environ(), childVariable+"=1")
		stdout, err := child.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(stdout)
		for lines.Scan() { // until the child closes its end
			if text := lines.Text(); (text == "running" || text == "asked") && len(signals) > 0 {
				_ = child.Process.Signal(signals[0])
				signals = signals[1:]
			}
		}
		err = child.Wait()
		if have := child.ProcessState.ExitCode(); have != status {
			t.Errorf("%s: exit status %d, %v; want %d", argument, have, err, status)
		}
	}
	f(0, "willing", syscall.SIGTERM)
	f(0, "willing", syscall.SIGINT)
	f(130, "hang", syscall.SIGTERM, syscall.SIGINT)
	f(130, "hang", syscall.SIGINT, syscall.SIGTERM)
}

func TestMainHelp(t *testing.T) {
	executable, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	child := exec.CommandContext(t.Context(), executable, "-help")
	child.Env = append(os.Environ(), childVariable+"=1")
	text, err := child.Output()
	if err != nil || !strings.HasPrefix(string(text), "child\n\nEvery setting") {
		t.Errorf("%s, %v", text, err)
	}
}
