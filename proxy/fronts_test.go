package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"weir/internal/test/testkit"
)

// A front is a program whose configuration under deploy/decision has it ask a proxy.
type front struct {
	folder string
	asks   string                        // regular expression of what has it ask
	change func(text, dir string) string // of each file for a test
	run    func(dir string) *exec.Cmd
}

func nginx() front {
	change := func(text, dir string) string {
		temps := ""
		for _, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
			temps += fmt.Sprintf("\n\t%s_temp_path %s/%s;", kind, dir, kind)
		}
		return strings.Replace(text, "http {", "http {\n\taccess_log off;"+temps, 1)
	}
	return front{"nginx", `auth_request /weir;`, change, func(dir string) *exec.Cmd {
		return exec.Command("nginx", "-p", dir, "-c", filepath.Join(dir, "nginx.conf"), "-g",
			"daemon off; master_process off; error_log stderr; pid "+dir+"/pid;")
	}}
}

func haproxy() front {
	same := func(text, _ string) string { return text }
	return front{"haproxy", `http-request lua\.weir .*`, same,
		func(string) *exec.Cmd { return exec.Command("haproxy", "-db", "-f", "haproxy.cfg") }}
}

func caddy() front {
	quiet := func(text, _ string) string { return "{\n\tadmin off\n}\n" + text }
	return front{"caddy", `(?s)\n\t\tforward_auth.*?\n\t\t\}`, quiet, func(dir string) *exec.Cmd {
		cmd := exec.Command("caddy", "run", "--adapter", "caddyfile", "--config", "Caddyfile")
		cmd.Env = append(os.Environ(), "HOME="+dir)
		return cmd
	}}
}

// silent returns the front with a configuration that does not ask.
func (f front) silent() front {
	change, asks := f.change, regexp.MustCompile(f.asks)
	f.change = func(text, dir string) string { return asks.ReplaceAllLiteralString(change(text, dir), "") }
	return f
}

// start starts the program, which asks at an address about requests for the application, until it serves.
func (f front) start(t *testing.T, decisions, app string) testkit.Endpoint {
	t.Helper()
	at := testkit.Endpoint{T: t, Addr: testkit.FreeAddr(t)}
	dir := t.TempDir()
	files, err := filepath.Glob(filepath.Join("..", "deploy", "decision", f.folder, "*"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no configuration of %s: %v", f.folder, err)
	}
	addresses := strings.NewReplacer("127.0.0.1:8083", decisions, "127.0.0.1:8081", strings.TrimPrefix(app, "http://"),
		"127.0.0.1:8080", at.Addr, ":8080 {", ":"+at.Port()+" {")
	for _, file := range files {
		text := testkit.Must(os.ReadFile(file))(t)
		testkit.WriteFile(t, filepath.Join(dir, filepath.Base(file)), f.change(addresses.Replace(string(text)), dir))
	}
	cmd := f.run(dir)
	cmd.Dir = dir
	testkit.StartAt(t, cmd, at.Addr)
	testkit.Eventually(t, f.folder+" serves", func() bool {
		res, _, err := at.Try("GET /free")
		return err == nil && res.StatusCode == 200
	})
	return at
}
