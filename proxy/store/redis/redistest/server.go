// Package redistest starts Redis servers for tests.
package redistest

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"weir/internal/test/testkit"
)

// A Server is a redis-server of the test's own.
//
// Owned by its test.
type Server struct {
	T    testing.TB
	Port string
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

// New returns a server that is not started yet. It is killed when the test ends.
func New(t testing.TB, args ...string) *Server {
	t.Helper()
	s := &Server{T: t, Port: testkit.FreePort(t), Dir: t.TempDir(), Args: args}
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
func (s *Server) Addr() string { return "127.0.0.1:" + s.Port }

// Start starts the server, again after it was killed, and waits until it listens.
func (s *Server) Start() {
	s.T.Helper()
	s.Launch(append([]string{"--save", "", "--port", s.Port}, s.Args...)...)
	listens(s.T, s.Addr())
}

// listens waits until connections are accepted at addr.
func listens(t testing.TB, addr string) {
	t.Helper()
	testkit.Eventually(t, "the server listens", func() bool {
		conn, err := net.Dial("tcp", addr)
		if err == nil {
			conn.Close()
		}
		return err == nil
	})
}

// StartTLS starts a server that also accepts connections with TLS at addr, where it has the
// certificate in certFile, which is its own authority.
func StartTLS(t testing.TB, args ...string) (s *Server, addr, certFile, keyFile string) {
	t.Helper()
	certFile, keyFile = testkit.WritePair(t, testkit.SelfSigned(time.Now().Add(time.Hour), "127.0.0.1"))
	addr = testkit.FreeAddr(t)
	s = Start(t, append(args, "--tls-port", strings.TrimPrefix(addr, "127.0.0.1:"), "--tls-cert-file", certFile,
		"--tls-key-file", keyFile,
		"--tls-ca-cert-file", certFile, "--tls-auth-clients", "no")...)
	listens(t, addr)
	return s, addr, certFile, keyFile
}

// StartReplica starts a replica of a server, and waits until it has what the server has.
func StartReplica(t testing.TB, master *Server) *Server {
	t.Helper()
	s := Start(t, "--replicaof", "127.0.0.1", master.Port, "--repl-diskless-sync-delay", "0")
	s.Followed(master)
	return s
}

// StartNode starts a node of a Cluster that it does not know yet.
func StartNode(t testing.TB, args ...string) *Server {
	t.Helper()
	return Start(t, append([]string{"--cluster-enabled", "yes", "--cluster-port", testkit.FreePort(t)}, args...)...)
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
	cmd := exec.Command(Program(s.T, "redis-cli"), append([]string{"-e", "-p", s.Port}, words...)...)
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	text := strings.TrimSpace(out.String())
	if err != nil {
		return text, fmt.Errorf("%w: %s", err, text)
	}
	return text, nil
}
