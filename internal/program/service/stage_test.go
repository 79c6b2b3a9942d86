package service_test

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"weir/internal/program/service"
	"weir/internal/test/process"
	"weir/internal/test/testkit"
)

// programUser runs the programs when the test may choose that.
const programUser = "daemon"

// An instance is one of our programs that runs for a test.
type instance struct {
	name, setting string // setting: NAME=value, or empty
	addr          string
	program       *testkit.Program
	relays        map[string]string // addresses of what passes requests on to it
}

// A stage is all programs, in all the ways in which rowsOf wants them, and the
// proxies in front of them.
type stage struct {
	files    []string // of the programs
	programs []*instance
	users    bool            // processes may run as other users
	relays   map[string]bool // that there are
}

// startStage builds and starts all. Without root, and without the proxies, some
// rows are left out, except in continuous integration.
func startStage(t *testing.T) *stage {
	s := &stage{users: os.Geteuid() == 0, relays: make(map[string]bool)}
	if !s.users {
		if inCI() {
			t.Fatal("this test runs processes as other users: it needs root")
		}
		t.Log("LEFT OUT: requests of other users and through proxies, as only root can run processes as other users")
	}
	bin := t.TempDir()
	for dir := bin; dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil { // others run what is built
			t.Fatal(err)
		}
	}
	names := make(map[string]bool)
	for _, e := range service.OwnEndpoints() {
		if e.Program != "" {
			names[e.Program] = true
		}
	}
	for name := range names {
		folder := name
		if name == "ratelimit" { // by that name the proxy reads another environment
			folder = "proxy"
		} else {
			s.files = append(s.files, filepath.Join(bin, name))
		}
		if out, err := exec.Command("go", "build", "-o", filepath.Join(bin, name),
			"weir/"+folder).CombinedOutput(); err != nil {
			t.Fatalf("build %s: %v\n%s", name, err, out)
		}
		for setting := range rowsOf {
			if name == "proxy" || !strings.HasPrefix(setting, "TRUSTED_PROXIES") {
				s.start(t, filepath.Join(bin, name), setting)
			}
		}
	}
	if s.users {
		s.startRelays(t)
	}
	for _, p := range s.programs {
		for addr := range maps.Values(p.relays) {
			testkit.Eventually(t, p.name+" at "+addr, testkit.Endpoint{Addr: addr}.Listens)
		}
	}
	return s
}

// start starts a program.
func (s *stage) start(t *testing.T, file, setting string) {
	p := &instance{name: filepath.Base(file), setting: setting, addr: testkit.FreeAddr(t),
		relays: make(map[string]string)}
	_, port, _ := net.SplitHostPort(p.addr)
	c := exec.Command(file)
	if s.users {
		c = asUser(t, programUser, file)
	}
	own := filepath.Join(filepath.Dir(file), port) // where the program may write
	if err := errors.Join(os.Mkdir(own, 0o777), os.Chmod(own, 0o777)); err != nil {
		t.Fatal(err)
	}
	c.Env = []string{"BIND=127.0.0.1", "PORT=" + port, "DEFER_URL=file:" + own + "/deferred"}
	if p.name == "ratelimit" {
		limits := filepath.Join(own, "config", "limits.yaml")
		if err := errors.Join(os.Mkdir(filepath.Dir(limits), 0o755),
			os.WriteFile(limits, []byte("domain: any\n"), 0o644)); err != nil {
			t.Fatal(err)
		}
		c.Env = []string{"DEBUG_HOST=127.0.0.1", "DEBUG_PORT=" + port, "PORT=" + testkit.FreePort(t), "GRPC_PORT=0",
			"RUNTIME_ROOT=" + own, "REDIS_URL=" + testkit.FreeAddr(t)}
	}
	if setting != "" {
		c.Env = append(c.Env, setting)
	}
	p.program = testkit.StartAt(t, c, p.addr)
	s.programs = append(s.programs, p)
}

// startRelays puts the proxies in front of the programs, as they are installed.
func (s *stage) startRelays(t *testing.T) {
	dir := t.TempDir()
	nginx := fmt.Sprintf("user www-data;\nworker_processes 1;\ndaemon off;\npid %s/pid;\nerror_log "+
		"%[1]s/errors;\nevents {}\nhttp {\naccess_log off;\n", dir)
	haproxy := "global\n user haproxy\n group haproxy\ndefaults\n timeout connect 5s\n timeout client 30s\n " +
		"timeout server 30s\n"
	for i, p := range s.programs {
		for _, relay := range []string{"nginx", "haproxy http", "haproxy tcp", "socat"} {
			p.relays[relay] = testkit.FreeAddr(t)
		}
		nginx += fmt.Sprintf("server { listen %s; location / { proxy_pass http://%s; } }\n", p.relays["nginx"], p.addr)
		for _, mode := range []string{"http", "tcp"} {
			haproxy += fmt.Sprintf("listen %[1]s%[2]d\n mode %[1]s\n bind %[3]s\n server one %[4]s\n", mode, i,
				p.relays["haproxy "+mode], p.addr)
		}
	}
	write := func(name, text string) string {
		name = filepath.Join(dir, name)
		testkit.WriteFile(t, name, text)
		return name
	}
	s.relay(t, "nginx", exec.Command("nginx", "-c", write("nginx.conf", nginx+"}\n")))
	c := exec.Command("haproxy", "-db", "-f", write("haproxy.cfg", haproxy))
	s.relay(t, "haproxy http", c)
	s.relays["haproxy tcp"] = s.relays["haproxy http"]
	for _, p := range s.programs {
		_, port, _ := net.SplitHostPort(p.relays["socat"])
		s.relay(t, "socat", asUser(t, "nobody", "socat", "TCP-LISTEN:"+port+",bind=127.0.0.1,fork,reuseaddr", "TCP:"+p.addr))
	}
	for _, p := range s.programs {
		for name := range p.relays {
			if !s.relays[name] {
				delete(p.relays, name)
			}
		}
	}
}

// relay starts a proxy, if it is installed.
func (s *stage) relay(t *testing.T, name string, c *exec.Cmd) {
	if c.Err != nil {
		if inCI() {
			t.Fatal(c.Err)
		}
		t.Logf("LEFT OUT: requests through %s: %v", name, c.Err)
		return
	}
	s.relays[name] = true
	testkit.Start(t, c)
}

// missing reports whether a row cannot be tried here.
func (s *stage) missing(r row) bool {
	return r.user != "" && !(s.users && s.relays["socat"]) || r.by != "" && !s.relays[r.by]
}

// asUser is a command that runs as another user.
func asUser(t *testing.T, name, command string, args ...string) *exec.Cmd {
	t.Helper()
	c := exec.Command(command, args...)
	c.SysProcAttr = &syscall.SysProcAttr{Credential: testkit.Must(process.CredentialOf(name))(t)}
	c.Dir = "/"
	return c
}
