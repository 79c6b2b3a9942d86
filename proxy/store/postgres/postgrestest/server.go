// Package postgrestest starts PostgreSQL servers, and PgBouncer, for tests.
package postgrestest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"weir/internal/test/testkit"
)

// A Server is a PostgreSQL, or a PgBouncer, of the test's own. It does not run as root,
// which it would refuse to.
type Server struct {
	t    testing.TB
	dir  string // owned by the user as which it runs
	port string
	args []string

	program *testkit.Program
}

// plain is the user as which servers run: nil for that of the test, unless it is root.
func plain(t testing.TB) *syscall.Credential {
	t.Helper()
	if os.Getuid() != 0 {
		return nil
	}
	u := testkit.Must(user.Lookup("nobody"))(t)
	uid, gid := testkit.Must(strconv.ParseUint(u.Uid, 10, 32))(t), testkit.Must(strconv.ParseUint(u.Gid, 10, 32))(t)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
}

// tempDir is a folder for temporary files that the user of the servers can reach.
func tempDir(t testing.TB) string {
	t.Helper()
	if plain(t) == nil {
		return os.TempDir()
	}
	for _, dir := range []string{os.TempDir(), "/tmp", "/var/tmp"} {
		if open(dir) {
			return dir
		}
	}
	t.Fatalf("neither %s nor /tmp nor /var/tmp is open to other users than root", os.TempDir())
	return ""
}

// open reports whether everybody may go into a folder.
func open(dir string) bool {
	for {
		info, err := os.Stat(dir)
		if err != nil || info.Mode()&0o001 == 0 {
			return false
		}
		if dir == filepath.Dir(dir) {
			return true
		}
		dir = filepath.Dir(dir)
	}
}

// newServer makes a folder for a server. (That of t is below one which is closed to others.)
func newServer(t testing.TB, args ...string) *Server {
	t.Helper()
	dir := testkit.Must(os.MkdirTemp(tempDir(t), "weir-postgres-"))(t)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if c := plain(t); c != nil {
		if err := os.Chown(dir, int(c.Uid), int(c.Gid)); err != nil {
			t.Fatal(err)
		}
	}
	return &Server{t: t, dir: dir, port: testkit.FreePort(t), args: args}
}

// command is a program that runs as the server's user.
func (s *Server) command(program string, args ...string) *exec.Cmd {
	s.t.Helper()
	path := testkit.Installed(s.t, program, "/usr/lib/postgresql/*/bin", "/usr/sbin")
	cmd := exec.Command(path, args...)
	cmd.Dir = s.dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C"} // PGDATA and the like would count
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: plain(s.t)}
	return cmd
}

// Start starts a PostgreSQL with the role of superuser "weir" and database "weir".
func Start(t testing.TB, args ...string) *Server {
	t.Helper()
	s := newServer(t, args...)
	out, err := s.command("initdb", "-D", s.Data(), "-U", "weir", "-A", "trust", "-E",
		"UTF8", "--no-sync", "--no-instructions", "--wal-segsize=1").CombinedOutput()
	if err != nil {
		t.Fatalf("initdb: %v\n%s", err, out)
	}
	s.Restart()
	s.Do("postgres", "CREATE DATABASE weir")
	return s
}

// Data is the folder of the server's files.
func (s *Server) Data() string { return filepath.Join(s.dir, "data") }

// Restart starts a server that was killed, and waits until it answers.
func (s *Server) Restart() {
	s.t.Helper()
	args := []string{"-D", s.Data(), "-p", s.port, "-h", "127.0.0.1", "-k", "",
		"-c", "dynamic_shared_memory_type=mmap", // /dev/shm may be small
		"-c", "fsync=off", "-c", "full_page_writes=off", "-c", "shared_buffers=32MB", "-c", "max_wal_size=64MB",
		"-c", "min_wal_size=2MB", "-c", "log_min_messages=warning"}
	s.start(s.command("postgres", append(args, s.args...)...))
	testkit.Eventually(s.t, "the server answers", func() bool {
		if s.program.Ended() {
			s.t.Fatalf("the server has ended:\n%s", &s.program.Log)
		}
		_, err := s.Try("postgres", "SELECT 1")
		return err == nil
	})
}

// start starts a program, whose processes are all killed when the test ends, and waits until it listens.
func (s *Server) start(cmd *exec.Cmd) {
	s.t.Helper()
	s.program = testkit.StartAt(s.t, cmd, "127.0.0.1:"+s.port)
	s.t.Cleanup(s.Kill)
}

// Kill ends the server and all of its processes as kill -9 does.
func (s *Server) Kill() {
	if !s.program.Ended() {
		s.Signal(syscall.SIGKILL)
	}
}

// URL is how the server's database is reached by a role.
func (s *Server) URL(role, database string) string {
	return fmt.Sprintf("postgres://%s@127.0.0.1:%s/%s?sslmode=disable", role, s.port, database)
}

// Do runs SQL as superuser in a database, and fails the test on an error.
func (s *Server) Do(database, sql string) string {
	s.t.Helper()
	out, err := s.Try(database, sql)
	if err != nil {
		s.t.Fatalf("%s: %v", sql, err)
	}
	return out
}

// Try runs SQL on a connection of its own, and returns the last value.
func (s *Server) Try(database, sql string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), testkit.Patience)
	defer cancel()
	conn, err := pgconn.Connect(ctx, s.URL("weir", database))
	if err != nil {
		return "", err
	}
	defer conn.Close(ctx)
	results, err := conn.Exec(ctx, sql).ReadAll()
	if err != nil || len(results) == 0 || len(results[len(results)-1].Rows) == 0 {
		return "", err
	}
	return string(results[len(results)-1].Rows[0][0]), nil
}

// Psql has psql run SQL as superuser in a database, statement by statement, and returns what it
// prints. It goes on after an error.
func (s *Server) Psql(database, sql string) string {
	s.t.Helper()
	cmd := s.command("psql", "-X", "-h", "127.0.0.1", "-p", s.port, "-U", "weir", database)
	cmd.Stdin = strings.NewReader(sql)
	out, err := cmd.CombinedOutput()
	if err != nil {
		s.t.Fatalf("psql: %v\n%s", err, out)
	}
	return string(out)
}

// Shutdown ends a server as its administrator does, who does not wait for clients.
func (s *Server) Shutdown() {
	s.t.Helper()
	s.program.Signal(syscall.SIGINT)
	s.program.Status()
}

// Signal sends a signal to all processes of the server, and waits until those have stopped or
// ended that it stops or kills.
func (s *Server) Signal(sig syscall.Signal) {
	s.t.Helper()
	stopped := func(pid int) {
		testkit.Eventually(s.t, "a process of the server stops", func() bool { return strings.Contains("TZ", state(pid)) })
	}
	if pid := s.program.Process.Pid; sig == syscall.SIGKILL || sig == syscall.SIGSTOP { // it starts no others meanwhile
		_ = syscall.Kill(pid, syscall.SIGSTOP) // it may have ended
		stopped(pid)
	}
	processes := s.processes()
	for _, pid := range processes {
		_ = syscall.Kill(pid, sig) // it may have ended
	}
	switch sig {
	case syscall.SIGSTOP:
		for _, pid := range processes {
			stopped(pid)
		}
	case syscall.SIGKILL:
		s.program.Status() // all have ended, since they have its standard output
	}
}

// processes are the children of the server and, last, itself.
func (s *Server) processes() (all []int) {
	s.t.Helper()
	pid := s.program.Process.Pid
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	if err != nil {
		s.t.Fatal(err)
	}
	for _, field := range append(strings.Fields(string(raw)), strconv.Itoa(pid)) {
		child, err := strconv.Atoi(field)
		if err != nil {
			s.t.Fatal(err)
		}
		all = append(all, child)
	}
	return all
}

// state is the letter that /proc has for a process: T stopped, Z ended; empty: gone.
func state(pid int) string {
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, rest, _ := strings.Cut(string(stat), ") ")
	return rest[:min(1, len(rest))]
}
