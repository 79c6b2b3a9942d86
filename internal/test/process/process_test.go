package process

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// patient is a context that bounds the waits of a test.
func patient(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// shell starts a script, and waits until it has written a line.
func shell(t *testing.T, script string) *Child {
	t.Helper()
	c, err := Start(exec.Command("sh", "-c", script))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Kill)
	if err := c.Until(patient(t), "writes", func() bool { return len(c.Log.Lines("")) > 0 }); err != nil {
		t.Fatal(err)
	}
	return c
}

// What a process has started ends with it, when it is killed.
func TestKill(t *testing.T) {
	c := shell(t, "sleep 3600 & echo on; wait")
	children := Children(c.Pid())
	if len(children) != 1 {
		t.Fatalf("it has the children %v, want one", children)
	}
	c.Kill() // returns when nobody has its output any more; its child may then still be ending
	for ctx := patient(t); !frozen(children[0]); runtime.Gosched() {
		if ctx.Err() != nil {
			t.Fatal("its child goes on after Kill")
		}
	}
	if !c.Ended() {
		t.Error("after Kill it has not ended")
	}
	c.Kill() // harmless
}

// A process that leaves its process group is stopped and killed too, as those of PostgreSQL do.
func TestSignalAll(t *testing.T) {
	c := shell(t, "setsid sleep 3600 & echo on; wait")
	child := Children(c.Pid())[0]
	for _, step := range []struct {
		signal syscall.Signal
		frozen bool
	}{{syscall.SIGSTOP, true}, {syscall.SIGCONT, false}, {syscall.SIGSTOP, true}, {syscall.SIGKILL, true}} {
		if err := c.SignalAll(patient(t), step.signal); err != nil {
			t.Fatal(err)
		}
		for _, pid := range []int{c.Pid(), child} {
			if err := c.Until(patient(t), "continues", func() bool { return frozen(pid) == step.frozen }); err != nil &&
				step.signal != syscall.SIGKILL {
				t.Errorf("after %v: %v", step.signal, err)
			}
		}
	}
	if !c.Ended() || !frozen(child) {
		t.Errorf("it has ended: %t, its child is still running: %t", c.Ended(), !frozen(child))
	}
	if err := Freeze(patient(t), c.Pid()); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("freezing a process that has ended: %v, want ESRCH", err)
	}
}

// A wait ends with the process, and says what it wrote, or with the context.
func TestAwait(t *testing.T) {
	c, err := Start(exec.Command("sh", "-c", "echo no such luck; exit 3"))
	if err != nil {
		t.Fatal(err)
	}
	err = c.AwaitPort(patient(t), "127.0.0.1:1")
	if err == nil || !strings.Contains(err.Error(), "(exit status 3) before it listens at 127.0.0.1:1") ||
		!strings.Contains(err.Error(), "no such luck") {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err = shell(t, "echo on; sleep 3600").AwaitPort(ctx, "127.0.0.1:1")
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
}

func TestFind(t *testing.T) {
	dir := t.TempDir()
	for _, version := range []string{"1", "2"} {
		if err := os.Mkdir(filepath.Join(dir, version), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, version, "weird"), nil, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := Find("weird", dir, dir+"/*"); err != nil || got != dir+"/2/weird" {
		t.Errorf("got %s, %v, want the latest", got, err)
	}
	if got, err := Find("weird"); !errors.Is(err, exec.ErrNotFound) {
		t.Errorf("got %s, %v, want %v", got, err, exec.ErrNotFound)
	}
}

// The end of a long output is kept.
func TestLogIsBounded(t *testing.T) {
	var l Log
	half := []byte(strings.Repeat("x", logMax/2))
	for _, want := range []int{logMax / 2, logMax, logMax / 2} {
		_, _ = l.Write(half)
		if got := len(l.String()); got != want {
			t.Errorf("%d bytes are kept, want %d", got, want)
		}
	}
	_, _ = l.Write([]byte("end"))
	if got := l.End(4); got != "xend" {
		t.Errorf("the end is %q, want xend", got)
	}
}
