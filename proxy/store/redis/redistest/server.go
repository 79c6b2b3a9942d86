// Package redistest starts Redis servers for tests.
package redistest

import (
	"bytes"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"weir/internal/testkit"
)

// A Server is a redis-server of the test's own.
//
// Owned by its test.
type Server struct {
	T    testing.TB
	Port int
	Dir  string
	Args []string // of its next start
	cmd  *exec.Cmd
}

// Program returns the path of a Redis program. Without it the test is skipped, on a machine
// for continuous integration it fails.
func Program(t testing.TB, name string) string {
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

// FreePort returns a port that nobody listens on, each time another.
func FreePort(t testing.TB) int {
	t.Helper()
	return int(netip.MustParseAddrPort(testkit.FreeAddr(t)).Port())
}

// New returns a server that is not started yet. It is killed when the test ends.
func New(t testing.TB, args ...string) *Server {
	t.Helper()
	s := &Server{T: t, Port: FreePort(t), Dir: t.TempDir(), Args: args}
	t.Cleanup(s.Kill)
	return s
}

// Start starts a server that keeps nothing on disk, unless args say otherwise.
func Start(t testing.TB, args ...string) *Server {
	t.Helper()
	s := New(t, args...)
	s.Start()
	return s
}

// Addr is host:port of the server.
func (s *Server) Addr() string { return "127.0.0.1:" + strconv.Itoa(s.Port) }

// Start starts the server, again after it was killed, and waits until it listens.
func (s *Server) Start() {
	s.T.Helper()
	s.Launch(append([]string{"--save", "", "--port", strconv.Itoa(s.Port)}, s.Args...)...)
	testkit.Eventually(s.T, "the server listens", func() bool {
		conn, err := net.Dial("tcp", s.Addr())
		if err == nil {
			conn.Close()
		}
		return err == nil
	})
}

// Launch runs redis-server with these arguments.
func (s *Server) Launch(args ...string) {
	s.T.Helper()
	s.cmd = exec.Command(Program(s.T, "redis-server"), append(args, "--bind", "127.0.0.1", "--dir", s.Dir)...)
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := s.cmd.Start(); err != nil {
		s.T.Fatal(err)
	}
}

// Kill ends the server as kill -9 does.
func (s *Server) Kill() {
	if s.cmd == nil {
		return
	}
	_ = s.cmd.Process.Kill() // it may have ended
	_ = s.cmd.Wait()         // says that it was killed
	s.cmd = nil
}

// Signal sends the server a signal. After SIGSTOP it returns when the server has stopped.
func (s *Server) Signal(sig os.Signal) {
	s.T.Helper()
	if sig == syscall.SIGSTOP {
		testkit.Freeze(s.T, s.cmd.Process.Pid)
		return
	}
	if err := s.cmd.Process.Signal(sig); err != nil {
		s.T.Fatal(err)
	}
}

// Do runs a command on the server, and fails the test on an error.
func (s *Server) Do(words ...string) string {
	s.T.Helper()
	out, err := s.Try(words...)
	if err != nil {
		s.T.Fatalf("%s: %v", strings.Join(words, " "), err)
	}
	return out
}

// Try runs a command on the server, on a connection of its own.
func (s *Server) Try(words ...string) (string, error) {
	var out bytes.Buffer
	cmd := exec.Command(Program(s.T, "redis-cli"), append([]string{"-e", "-p", strconv.Itoa(s.Port)}, words...)...)
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	text := strings.TrimSpace(out.String())
	if err != nil {
		return text, fmt.Errorf("%w: %s", err, text)
	}
	return text, nil
}
