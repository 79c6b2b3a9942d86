package postgres

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"weir/internal/test/testkit"
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
	schema := strings.Replace(Schema("weir", false), version(schemaVersion), version(schemaVersion-1), 1)
	// version 4 of take_one_1
	before := regexp.MustCompile(
		`IF current_setting[^;]*THEN\s*(waits := [^;]*lock_1[^;]*;)\s*END IF;`).ReplaceAllString(schema, "$1")
	if before == schema {
		t.Fatal("take_one_1 is as it was before")
	}
	s.Do("weir", InstallScript("weir", before))
	s.Do("weir", "REASSIGN OWNED BY weir_owner TO weir") // that of version 6
	const costs = "SELECT string_agg(procost::text, ' ') FROM pg_proc WHERE proname IN ('take_1', 'take_one_1')"
	replaced := s.Do("weir", costs)
	for _, name := range []string{"take_1", "take_one_1"} {
		s.Do("weir", "ALTER FUNCTION weir."+name+" COST 7") // by which it is known from the one that replaces it
	}
	// Of the second, nothing comes back while the test runs: one permit takes 1000 s.
	limits := [...]*limit.Limit{fixed(1 << 40),
		limittest.Must(limit.Config{Algorithm: limit.GCRA, Limit: 1, Window: 1000, Burst: 1_000_000})}
	var admitted [len(limits)]atomic.Int64
	var all sync.WaitGroup
	stopping := make(chan struct{})
	for range 3 {
		conn := testkit.Must(pgconn.Connect(background, s.URL("weir", "weir")))(t)
		all.Go(func() {
			defer conn.Close(background)
			for {
				select {
				case <-stopping:
					return
				default:
					for i, l := range limits {
						admitted[i].Add(takeAsBefore(t, conn,
							&store.Group{N: 2, Counters: []store.Counter{{Rule: "r", Key: []byte("key"), Limit: l, Cost: 1}}}))
					}
				}
			}
		})
	}
	used := func(when string) {
		t.Helper()
		for i := range admitted {
			then := admitted[i].Load()
			testkit.Eventually(t, "the version before is used "+when, func() bool {
				return admitted[i].Load() > then+20 ||
					t.Failed()
			})
		}
	}
	used("before")
	b := openBackend(t, Config{URL: s.URL("weir", "weir")})
	if err := b.Probe(background); err != nil {
		t.Fatal(err)
	}
	if version := s.Do("weir", "SELECT weir.version()"); version != strconv.Itoa(schemaVersion) {
		t.Errorf("version %s, want %d", version, schemaVersion)
	}
	if got := s.Do("weir", costs); got != replaced {
		t.Errorf("take_1 and take_one_1 were not replaced: they cost %s, want %s", got, replaced)
	}
	if n := s.Do("weir", "SELECT count(*) FROM pg_proc p FULL JOIN pg_class c ON false WHERE coalesce(pronamespace, "+
		"relnamespace) = 'weir'::regnamespace AND coalesce(proowner, relowner) <> 'weir_owner'::regrole"); n != "0" {
		t.Errorf("%s tables and functions still belong to the superuser who created them", n)
	}
	for n := range 40 {
		i := n % len(limits)
		g := decide(b, 3, limits[i])
		if g.Err != nil {
			t.Fatal(g.Err)
		}
		admitted[i].Add(int64(g.Granted))
	}
	used("after")
	close(stopping)
	all.Wait()
	permit, _ := limits[1].PermitParts()
	for i, counted := range []string{"a", fmt.Sprintf("(a + %d) / %d", permit-1, permit)} {
		kept := s.Do("weir", fmt.Sprintf("SELECT %s FROM weir.keys WHERE expires > 0 AND tag >> 56 = %d", counted,
			limits[i].Algorithm()))
		if sum := admitted[i].Load(); kept != strconv.FormatInt(sum, 10) {
			t.Errorf("%v: %d were admitted, and %s are counted", limits[i].Algorithm(), sum, kept)
		}
	}
}

// takeAsBefore asks as a program of the version before does, and returns how many go.
func takeAsBefore(t *testing.T, conn *pgconn.PgConn, g *store.Group) int64 {
	call := takes("", &store.Batch{Groups: []*store.Group{g}})[0]
	f, args := call.call(0, 60_000)
	sql := map[function]string{takeAny: "take_1($1,$2,$3,$4,$5,$6)",
		takeOne: "take_one_1($1,$2,$3,$4,$5,$6,$7,$8,$9,$10,$11,$12)"}[f]
	result := conn.ExecParams(background, "SELECT granted FROM weir."+sql, args.values, args.types, binaryFormat,
		binaryFormat).Read()
	if result.Err != nil {
		t.Error(result.Err)
		return 0
	}
	row := NewFields(result.Rows[0])
	n := row.Int8s()
	if len(n) != 1 {
		t.Errorf("granted %v, %v", n, row.Err)
		return 0
	}
	return n[0]
}

// Plans that were made while there was one key find their rows by the index when there are
// many: nothing has PostgreSQL make them again before it has analyzed the table.
func TestGrown(t *testing.T) {
	t.Parallel()
	s := postgrestest.Start(t, "autovacuum=off")
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
			testkit.Must(b.Add(background, "r", []byte("key"), 1))(t)
			testkit.Must(b.Forget(background, "r", []byte("key")))(t)
		}
	}
	const rows = 5000
	use()
	s.Do("weir", "VACUUM (FULL, ANALYZE) weir.keys")
	use()
	s.Do("weir", fmt.Sprintf(
		"INSERT INTO weir.keys SELECT 'filler' || n::text::bytea, 0, 0, 0, 0, 0, 0, 0 FROM generate_series(1, %d) n", rows))
	use()
	if read := counted(t, s, b, "seq_tup_read + idx_tup_fetch"); read >= rows {
		t.Errorf("%d rows were read", read)
	}
}

// counted is a column of the statistics of table keys, after b has ended: then its
// connections have reported what they did.
func counted(t *testing.T, s *postgrestest.Server, b *backend, column string) int64 {
	t.Helper()
	b.Close()
	testkit.Eventually(t, "the connections have ended", func() bool {
		return s.Do("weir", "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'weir'") == "0"
	})
	return testkit.Must(strconv.ParseInt(s.Do("weir",
		"SELECT "+column+" FROM pg_stat_user_tables WHERE relname = 'keys'"), 10, 64))(t)
}
