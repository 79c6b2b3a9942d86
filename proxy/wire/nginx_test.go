package wire

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"weir/internal/testkit"
	"weir/proxy/roster"
)

// nginx starts an nginx with these directives, of all servers and of the one
// that there is, and returns its address. Without the program the test is skipped,
// and fails where CI=true.
func nginx(t *testing.T, http, server string) string {
	t.Helper()
	if _, err := exec.LookPath("nginx"); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("nginx is missing (Debian: apt-get install nginx-light)")
		}
		t.Skip("nginx is missing (Debian: apt-get install nginx-light)")
	}
	dir := t.TempDir()
	address := testkit.FreeAddr(t)
	replaceFile(t, filepath.Join(dir, "nginx.conf"), fmt.Sprintf(`daemon off;
master_process off;
pid %[1]s/pid;
error_log stderr;
events {}
http {
	access_log off;
	client_body_temp_path %[1]s/body;
	proxy_temp_path %[1]s/proxy;
	fastcgi_temp_path %[1]s/fastcgi;
	uwsgi_temp_path %[1]s/uwsgi;
	scgi_temp_path %[1]s/scgi;
	%[3]s
	server {
		listen %[2]s;
		%[4]s
	}
}
`, dir, address, http, server))
	cmd := exec.Command("nginx", "-p", dir, "-c", filepath.Join(dir, "nginx.conf"))
	log := new(testkit.Log)
	cmd.Stderr = log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	gone := make(chan struct{})
	go func() { _ = cmd.Wait(); close(gone) }()
	t.Cleanup(func() { _ = cmd.Process.Kill(); <-gone })
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience)
	defer cancel()
	for retry := time.NewTicker(5 * time.Millisecond); ; {
		if c, err := net.Dial("tcp", address); err == nil {
			c.Close()
			return address
		}
		select {
		case <-retry.C:
		case <-gone:
			t.Fatalf("nginx ended: %s", log)
		case <-ctx.Done():
			t.Fatalf("nginx does not listen: %s", log)
		}
	}
}

// nginx does not compress answers to proxies, which it recognizes by Via, unless configured to
// (gzip_proxied). With VIA_NAME=off it does.
func TestNginxCompressesWithoutVia(t *testing.T) {
	dir := t.TempDir()
	text := strings.Repeat("the same words again and again\n", 1000)
	if err := os.WriteFile(filepath.Join(dir, "words"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	target := "http://" + nginx(t, "gzip on; gzip_types text/plain; default_type text/plain;", "root "+dir+";")
	for name, want := range map[string]string{"weir": "", "off": "gzip"} {
		r := start(t, target, "VIA_NAME", name)
		status, fields, body := r.do("GET", "/words", "", "Accept-Encoding", "gzip")
		if status != 200 || fields.Get("Content-Encoding") != want || (len(body) < len(text)/10) != (want != "") {
			t.Errorf("VIA_NAME=%s: answered %d with %d bytes of %d, Content-Encoding %q", name, status, len(body), len(text), fields.Get("Content-Encoding"))
		}
		if via := fields.Get("Via"); (via != "") != (name != "off") {
			t.Errorf("VIA_NAME=%s: answered with Via %q", name, via)
		}
	}
}

// A proxy that is its own target notices, with and without Via.
func TestCircle(t *testing.T) {
	for _, name := range []string{"weir", "off"} {
		r := start(t, "http://127.0.0.1:1", "VIA_NAME", name)
		addr := r.Addr().String()
		r.Targets.Set([]*roster.Target{{URL: "http://" + addr, Addr: addr, Host: addr}})
		if status, _, body := r.do("GET", "/", ""); status != 508 {
			t.Errorf("VIA_NAME=%s: answered %d %q", name, status, body)
		}
	}
}
