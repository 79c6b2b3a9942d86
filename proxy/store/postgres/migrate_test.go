package postgres

import (
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"weir/proxy/store"
	"weir/proxy/store/postgres/postgrestest"
)

// A schema of version 1 is brought to that of this program while proxies of version 1 use
// it: no ask of theirs fails, then or later, and what both admit is counted once.
func TestMigrateInUse(t *testing.T) {
	t.Parallel()
	s := postgrestest.Start(t)
	s.Do("weir", string(must[[]byte](t)(os.ReadFile("testdata/version1.sql"))))
	limit := fixed(1 << 40)
	var admitted atomic.Int64
	var all sync.WaitGroup
	stopping := make(chan struct{})
	for range 3 {
		conn := must[*pgconn.PgConn](t)(pgconn.Connect(background, s.URL("weir", "weir")))
		all.Go(func() {
			defer conn.Close(background)
			for {
				select {
				case <-stopping:
					return
				default:
					admitted.Add(takeAsVersion1(t, conn, &store.Group{N: 2, Counters: []store.Counter{{Rule: "r", Key: []byte("key"), Limit: limit, Cost: 1}}}))
				}
			}
		})
	}
	used := func(when string) {
		t.Helper()
		then := admitted.Load()
		postgrestest.Eventually(t, "version 1 is used "+when, func() bool { return admitted.Load() > then+20 || t.Failed() })
	}
	used("before")
	b := openBackend(t, Config{URL: s.URL("weir", "weir")})
	if err := b.Probe(background); err != nil {
		t.Fatal(err)
	}
	if version := s.Do("weir", "SELECT weir.version()"); version != strconv.Itoa(schemaVersion) {
		t.Errorf("version %s, want %d", version, schemaVersion)
	}
	for range 20 {
		g := decide(b, 3, limit)
		if g.Err != nil {
			t.Fatal(g.Err)
		}
		admitted.Add(int64(g.Granted))
	}
	used("after")
	close(stopping)
	all.Wait()
	if kept, sum := s.Do("weir", "SELECT a FROM weir.keys WHERE expires > 0 AND tag >> 56 = 1"), admitted.Load(); kept != strconv.FormatInt(sum, 10) {
		t.Errorf("%d were admitted, and %s are counted", sum, kept)
	}
}

// takeAsVersion1 asks as a program of version 1 does, and returns how many go.
func takeAsVersion1(t *testing.T, conn *pgconn.PgConn, g *store.Group) int64 {
	call := newTake("")
	call.ask(g)
	result := conn.ExecParams(background, "SELECT granted FROM weir.take_1($1,$2,$3,$4,$5,$6)", call.params(0, 60_000), takeTypes, binaryFormat, binaryFormat).Read()
	if result.Err != nil {
		t.Error(result.Err)
		return 0
	}
	n, err := parseInt8Array(result.Rows[0][0])
	if err != nil || len(n) != 1 {
		t.Errorf("granted %v, %v", n, err)
		return 0
	}
	return n[0]
}
