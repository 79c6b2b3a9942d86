// Package charttest looks at pages as people do: in a real browser. It drives
// Chromium without a window.
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

// patience is how long a browser may take for a page on a busy machine.
const patience = 5 * time.Minute

// DOM opens a page, lets budget of the page's own time pass (timers run fast,
// requests are waited for) and returns what is in it then. The test fails when
// a script of the page fails or writes an error to the console. Without Chromium
// it is skipped, but not where CI is set to true.
func DOM(t *testing.T, address string, budget time.Duration) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, find(t), "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
		"--user-data-dir="+profile(t), "--enable-logging=stderr", "--virtual-time-budget="+strconv.FormatInt(budget.Milliseconds(), 10), "--dump-dom", address)
	// Its helpers may outlive it for a while: they end with their group. What they
	// write goes to files, so that nobody waits for them to close a pipe.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	end := func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.Cancel = end
	out, words := output(t), output(t)
	cmd.Stdout, cmd.Stderr = out, words
	err := cmd.Run()
	if cmd.Process != nil {
		_ = end()
	}
	dom, said := content(t, out), content(t, words)
	if err != nil {
		t.Fatalf("chromium shows %s: %v\n%s", address, err, said)
	}
	for line := range strings.Lines(said) {
		if strings.Contains(line, ":CONSOLE") {
			t.Errorf("%s writes to the console: %s", address, line)
		}
	}
	return dom
}

// output returns a file for what a process writes.
func output(t *testing.T) *os.File {
	t.Helper()
	f, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// content is what a process has written to a file.
func content(t *testing.T, f *os.File) string {
	t.Helper()
	b, err := os.ReadFile(f.Name())
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// profile returns a folder for the browser. It is no t.TempDir, which fails a test
// when a helper of the browser still writes there while it is removed.
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

// File returns the address of a page that is written to a file for the test.
func File(t *testing.T, page []byte) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "page.html")
	if err := os.WriteFile(name, page, 0o600); err != nil {
		t.Fatal(err)
	}
	return (&url.URL{Scheme: "file", Path: name}).String()
}

// find returns the browser's command.
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
