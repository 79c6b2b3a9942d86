package redis

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/redis/rueidis"

	"weir/internal/testkit"
)

// A server is a redis-server of the test's own.
type server struct {
	t    testing.TB
	port int
	dir  string
	args []string
	cmd  *exec.Cmd
}

// program returns the path of a Redis program. Without it the test is skipped, on
// a machine for continuous integration it fails.
func program(t testing.TB, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	switch {
	case err == nil:
		return path
	case os.Getenv("CI") == "true":
		t.Fatalf("%s is missing (Debian: apt-get install redis-server redis-sentinel)", name)
	}
	t.Skipf("%s is missing (Debian: apt-get install redis-server redis-sentinel)", name)
	return ""
}

// freePort returns a port that nobody listens on, each time another.
func freePort(t testing.TB) int {
	t.Helper()
	addr := testkit.FreeAddr(t)
	return int(netip.MustParseAddrPort(addr).Port())
}

// startServer starts a redis-server that keeps nothing on disk, unless args say
// otherwise.
func startServer(t testing.TB, args ...string) *server {
	t.Helper()
	s := &server{t: t, port: freePort(t), dir: t.TempDir(), args: args}
	s.start()
	t.Cleanup(s.kill)
	return s
}

func (s *server) addr() string { return "127.0.0.1:" + strconv.Itoa(s.port) }

func (s *server) start() {
	s.t.Helper()
	s.launch(append([]string{"--save", "", "--port", strconv.Itoa(s.port)}, s.args...)...)
	testkit.Eventually(s.t, "the server listens", func() bool {
		conn, err := net.Dial("tcp", s.addr())
		if err == nil {
			conn.Close()
		}
		return err == nil
	})
}

func (s *server) launch(args ...string) {
	s.t.Helper()
	s.cmd = exec.Command(program(s.t, "redis-server"), append(args, "--bind", "127.0.0.1", "--dir", s.dir)...)
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
}

// kill ends the server as kill -9 does.
func (s *server) kill() {
	if s.cmd == nil {
		return
	}
	_ = s.cmd.Process.Kill() // it may have ended
	_ = s.cmd.Wait()         // says that it was killed
	s.cmd = nil
}

func (s *server) signal(sig os.Signal) {
	s.t.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil {
		s.t.Fatal(err)
	}
}

// do runs a command on the server, and fails the test on an error.
func (s *server) do(words ...string) string {
	s.t.Helper()
	out, err := s.try(words...)
	if err != nil {
		s.t.Fatalf("%s: %v", strings.Join(words, " "), err)
	}
	return out
}

// try runs a command on the server, on a connection of its own.
func (s *server) try(words ...string) (string, error) {
	var out bytes.Buffer
	cmd := exec.Command(program(s.t, "redis-cli"), append([]string{"-e", "-p", strconv.Itoa(s.port)}, words...)...)
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	text := strings.TrimSpace(out.String())
	if err != nil {
		return text, fmt.Errorf("%w: %s", err, text)
	}
	return text, nil
}

// dial returns a plain client of the server, for tests that need many commands.
func (s *server) dial() rueidis.Client {
	s.t.Helper()
	conn, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{s.addr()}, ForceSingleClient: true, DisableCache: true})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(conn.Close)
	return conn
}

// must fails the test on an error of a plain client.
func must(t testing.TB, result rueidis.RedisResult) rueidis.RedisMessage {
	t.Helper()
	m, err := result.ToMessage()
	if err != nil && !errors.Is(err, rueidis.Nil) {
		t.Fatal(err)
	}
	return m
}

var background = context.Background()
