// Package redistest starts Redis servers for tests.
package redistest

import (
	"fmt"
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

	program *testkit.Program
}

// New returns a server that is not started yet. It is killed when the test ends.
func New(t testing.TB, args ...string) *Server {
	t.Helper()
	return &Server{T: t, Port: testkit.FreePort(t), Dir: t.TempDir(), Args: args}
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

// Start starts the server, also after it was killed.
func (s *Server) Start() {
	s.T.Helper()
	s.Launch(append([]string{"--save", "", "--port", s.Port}, s.Args...)...)
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
	testkit.Eventually(t, "the server listens with TLS", testkit.Endpoint{Addr: addr}.Listens)
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

// Launch runs redis-server with these arguments, and waits until it listens.
func (s *Server) Launch(args ...string) {
	s.T.Helper()
	cmd := exec.Command(testkit.FindOrSkip(s.T, "redis-server"), append(args, "--bind", "127.0.0.1", "--dir", s.Dir)...)
	s.program = testkit.StartAt(s.T, cmd, s.Addr())
}

// Kill ends the server as kill -9 does.
func (s *Server) Kill() { s.program.Kill() }

// Signal sends the server a signal. After SIGSTOP it returns when the server has stopped.
func (s *Server) Signal(sig syscall.Signal) {
	s.T.Helper()
	if err := s.program.SignalAll(testkit.Context(s.T), sig); err != nil {
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
	cmd := exec.Command(testkit.FindOrSkip(s.T, "redis-cli"), append([]string{"-e", "-p", s.Port}, words...)...)
	out, err := cmd.CombinedOutput()
	text := strings.TrimSpace(string(out))
	if err != nil {
		return text, fmt.Errorf("%w: %s", err, text)
	}
	return text, nil
}
