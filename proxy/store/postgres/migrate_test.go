package postgres

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"weir/proxy/limit"
	"weir/proxy/limit/limittest"
	"weir/proxy/store"
	"weir/proxy/store/postgres/postgrestest"
)

// A schema of the version before is brought to that of this program while proxies of that
// version use it: no ask of theirs fails, then or later, and what both admit is counted once.
func TestMigrateInUse(t *testing.T) {
	t.Parallel()
	s := postgrestest.Start(t)
	version := func(n int) string { return fmt.Sprintf("AS 'SELECT %d'", n) }
	s.Do("weir", strings.Replace(Schema("weir", false), version(schemaVersion), version(schemaVersion-1), 1))
	const cost = "SELECT procost FROM pg_proc WHERE proname = 'take_1'"
	replaced := s.Do("weir", cost)
	s.Do("weir", "ALTER FUNCTION weir.take_1 COST 7") // by which it is known from the one that replaces it
	most := fixed(1 << 40)
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
					admitted.Add(takeAsBefore(t, conn, &store.Group{N: 2, Counters: []store.Counter{{Rule: "r", Key: []byte("key"), Limit: most, Cost: 1}}}))
				}
			}
		})
	}
	used := func(when string) {
		t.Helper()
		then := admitted.Load()
		postgrestest.Eventually(t, "the version before is used "+when, func() bool { return admitted.Load() > then+20 || t.Failed() })
	}
	used("before")
	b := openBackend(t, Config{URL: s.URL("weir", "weir")})
	if err := b.Probe(background); err != nil {
		t.Fatal(err)
	}
	if version := s.Do("weir", "SELECT weir.version()"); version != strconv.Itoa(schemaVersion) {
		t.Errorf("version %s, want %d", version, schemaVersion)
	}
	if got := s.Do("weir", cost); got != replaced {
		t.Errorf("take_1 was not replaced: it costs %s, want %s", got, replaced)
	}
	for range 20 {
		g := decide(b, 3, most)
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

// takeAsBefore asks as a program of the version before does, and returns how many go.
func takeAsBefore(t *testing.T, conn *pgconn.PgConn, g *store.Group) int64 {
	call := takes("", &store.Batch{Groups: []*store.Group{g}})[0]
	_, types, params := call.statement("weir.", 0, 60_000)
	result := conn.ExecParams(background, "SELECT granted FROM weir.take_1($1,$2,$3,$4,$5,$6)", params, types, binaryFormat, binaryFormat).Read()
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

// Plans that were made while there was one key find their rows by the index when there are
// many: nothing has PostgreSQL make them again before it has analyzed the table.
func TestGrown(t *testing.T) {
	t.Parallel()
	s := postgrestest.Start(t, "-c", "autovacuum=off")
	b := openBackend(t, Config{URL: s.URL("weir", "weir"), Connections: 1, clock: func() int64 { return limittest.Epoch }})
	if err := b.Probe(background); err != nil {
		t.Fatal(err)
	}
	bucket := limittest.Must(limit.Config{Algorithm: limit.Token, Capacity: 5, FillRate: 1e-6})
	group := func(key string, l *limit.Limit) *store.Group {
		return &store.Group{N: 1, Counters: []store.Counter{{Rule: "r", Key: []byte(key), Limit: l, Cost: 1}}}
	}
	use := func() {
		t.Helper()
		for range 10 { // beyond five times a plan is kept
			for _, l := range []*limit.Limit{fixed(1 << 40), bucket} {
				batch := &store.Batch{Groups: []*store.Group{group("key", l), group("other", l)}}
				b.Decide(background, batch)
				if err := batch.Groups[0].Err; err != nil {
					t.Fatal(err)
				}
			}
			admit(t, b)
			must[bool](t)(b.Add(background, "r", []byte("key"), 1))
			must[bool](t)(b.Forget(background, "r", []byte("key")))
		}
	}
	const rows = 5000
	use()
	s.Do("weir", "VACUUM (FULL, ANALYZE) weir.keys")
	use()
	s.Do("weir", fmt.Sprintf("INSERT INTO weir.keys SELECT 'filler' || n::text::bytea, 0, 0, 0, 0, 0, 0, 0 FROM generate_series(1, %d) n", rows))
	use()
	if read := counted(t, s, b, "seq_tup_read + idx_tup_fetch"); read >= rows {
		t.Errorf("%d rows were read", read)
	}
}

// counted is a column of the statistics of table keys, after b has ended: then its
// connections have told what they did.
func counted(t *testing.T, s *postgrestest.Server, b *backend, column string) int64 {
	t.Helper()
	b.Close()
	postgrestest.Eventually(t, "the connections have ended", func() bool {
		return s.Do("weir", "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'weir'") == "0"
	})
	n, err := strconv.ParseInt(s.Do("weir", "SELECT "+column+" FROM pg_stat_user_tables WHERE relname = 'keys'"), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
