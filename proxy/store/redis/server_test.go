package redis

import (
	"context"
	"errors"
	"os"
	"testing"

	"github.com/redis/rueidis"

	"weir/proxy/store/redis/redistest"
)

// A server is a redis-server of the test's own.
type server struct{ *redistest.Server }

// freePort returns a port that nobody listens on, each time another.
func freePort(t testing.TB) int {
	t.Helper()
	return redistest.FreePort(t)
}

// startServer starts a redis-server that keeps nothing on disk, unless args say
// otherwise.
func startServer(t testing.TB, args ...string) *server {
	t.Helper()
	return &server{redistest.Start(t, args...)}
}

func (s *server) addr() string                        { return s.Addr() }
func (s *server) start()                              { s.T.Helper(); s.Start() }
func (s *server) kill()                               { s.Kill() }
func (s *server) signal(sig os.Signal)                { s.T.Helper(); s.Signal(sig) }
func (s *server) do(words ...string) string           { s.T.Helper(); return s.Do(words...) }
func (s *server) try(words ...string) (string, error) { return s.Try(words...) }

// dial returns a plain client of the server, for tests that need many commands.
func (s *server) dial() rueidis.Client {
	s.T.Helper()
	conn, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{s.addr()}, ForceSingleClient: true, DisableCache: true})
	if err != nil {
		s.T.Fatal(err)
	}
	s.T.Cleanup(conn.Close)
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
