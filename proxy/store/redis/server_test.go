package redis

import (
	"context"
	"errors"
	"testing"

	"github.com/redis/rueidis"

	"weir/proxy/store/redis/redistest"
)

// dial returns a plain client of a server, for tests that need many commands.
func dial(s *redistest.Server) rueidis.Client {
	s.T.Helper()
	conn, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{s.Addr()}, ForceSingleClient: true,
		DisableCache: true})
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
