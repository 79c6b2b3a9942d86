// Package charttest loads pages in a headless Chromium.
package charttest

import (
	"context"
	"errors"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// patience bounds the time that a browser takes for a page on a busy machine.
const patience = 5 * time.Minute

// DOM opens a page, lets budget of virtual time pass (timers run fast, requests are waited
// for) and returns the content of the page then. The test fails if a script fails or writes
// to the console. Without Chromium the test is skipped, or fails if CI is true.
func DOM(t *testing.T, address string, budget time.Duration) string {
	t.Helper()
	dom, said := Visit(t, address, budget)
	for line := range strings.Lines(said) {
		if strings.Contains(line, ":CONSOLE") {
			t.Errorf("%s writes to the console: %s", address, line)
		}
	}
	return dom
}

// Visit does what DOM does, and returns what the browser logs, including what is written to the console.
func Visit(t *testing.T, address string, budget time.Duration) (dom, log string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, find(t), "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
		"--user-data-dir="+profile(t), "--enable-logging=stderr", "--virtual-time-budget="+strconv.FormatInt(budget.Milliseconds(), 10), "--dump-dom", address)
	// Its child processes may outlive it, so the whole process group is killed. Output goes
	// to files, because a pipe would stay open until the last of them ends.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	end := func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.Cancel = end
	out, words := output(t), output(t)
	cmd.Stdout, cmd.Stderr = out, words
	err := cmd.Run()
	if cmd.Process != nil {
		_ = end()
	}
	dom, log = content(t, out), content(t, words)
	if err != nil {
		t.Fatalf("chromium shows %s: %v\n%s", address, err, log)
	}
	return dom, log
}

// output returns a file for the output of a process.
func output(t *testing.T) *os.File {
	t.Helper()
	f, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// content returns the content of such a file.
func content(t *testing.T, f *os.File) string {
	t.Helper()
	b, err := os.ReadFile(f.Name())
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// profile returns a folder for the browser. t.TempDir would fail the test if a child process
// of the browser still writes there while it is removed.
func profile(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "weir-browser-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for range 100 {
			if os.RemoveAll(dir) == nil {
				return
			}
		}
	})
	return dir
}

// File writes a page to a file and returns its address.
func File(t *testing.T, page []byte) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "page.html")
	if err := os.WriteFile(name, page, 0o600); err != nil {
		t.Fatal(err)
	}
	return (&url.URL{Scheme: "file", Path: name}).String()
}

// find returns the path of the browser.
func find(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		path, err := exec.LookPath(name)
		if err == nil {
			return path
		}
		if !errors.Is(err, exec.ErrNotFound) {
			t.Fatal(err)
		}
	}
	if os.Getenv("CI") == "true" {
		t.Fatal("there is no chromium: install the package chromium")
	}
	t.Skip("there is no chromium: install the package chromium")
	return ""
}
