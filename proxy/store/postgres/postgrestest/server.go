// Package postgrestest starts PostgreSQL servers, and PgBouncer, for tests.
package postgrestest

import (
	"context"
	"fmt"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"weir/internal/test/process"
	"weir/internal/test/testkit"
)

// A Server is a PostgreSQL, or a PgBouncer, of the test's own.
type Server struct {
	t        testing.TB
	server   *process.Postgres
	port     string
	settings []string // NAME=value
}

// newServer makes a folder for a server, which is killed when the test ends.
func newServer(t testing.TB, settings ...string) *Server {
	t.Helper()
	port := testkit.FreePort(t)
	p := testkit.Must(process.NewPostgres("127.0.0.1:" + port))(t)
	t.Cleanup(func() { _ = p.Remove() })
	return &Server{t: t, server: p, port: port, settings: settings}
}

// check fails the test unless err is nil, and skips it if a program is not installed.
func (s *Server) check(err error) {
	s.t.Helper()
	testkit.SkipIfMissing(s.t, err)
	if err != nil {
		s.t.Fatal(err)
	}
}

// Start starts a PostgreSQL with the role of superuser "weir" and database "weir", and with settings
// of the form NAME=value.
func Start(t testing.TB, settings ...string) *Server {
	t.Helper()
	s := newServer(t, settings...)
	s.check(s.server.Init("--no-instructions", "--wal-segsize=1"))
	s.Restart()
	s.Do("postgres", "CREATE DATABASE weir")
	return s
}

// Data is the folder of the server's files.
func (s *Server) Data() string { return s.server.Data() }

// Restart starts a server that was killed, and waits until it answers.
func (s *Server) Restart() {
	s.t.Helper()
	s.check(s.server.Start(testkit.Context(s.t), append([]string{"fsync=off", "full_page_writes=off",
		"shared_buffers=32MB", "max_wal_size=64MB", "min_wal_size=2MB", "log_min_messages=warning"}, s.settings...)...))
}

// Kill ends the server and all of its processes as kill -9 does.
func (s *Server) Kill() { s.server.Kill() }

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
	ctx, cancel := context.WithTimeout(context.Background(), testkit.Timeout)
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
	out, err := s.server.Run(sql, "psql", "-X", "-h", "127.0.0.1", "-p", s.port, "-U", "weir", database)
	s.check(err)
	return out
}

// Shutdown ends a server as its administrator does, who does not wait for clients.
func (s *Server) Shutdown() {
	s.t.Helper()
	s.check(s.server.Process.Signal(syscall.SIGINT))
	testkit.Receive(s.t, s.server.Done(), "the server ends")
}

// Signal sends a signal to all processes of the server, and waits until those have stopped or
// ended that it stops or kills.
func (s *Server) Signal(sig syscall.Signal) {
	s.t.Helper()
	s.check(s.server.SignalAll(testkit.Context(s.t), sig))
}
