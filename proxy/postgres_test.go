package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"weir/internal/test/testkit"
	"weir/proxy/store/postgres/postgrestest"
)

// inPostgres is an environment with counters in PostgreSQL, as inRedis.
func inPostgres(url string) []string { return []string{"POSTGRES_URL", url, "POSTGRES_TIMEOUT", "2s"} }

// Settings that contradict each other, and a store that refuses us for good, end the start
// with one line, which never tells the password.
func TestMisconfiguredPostgres(t *testing.T) {
	s := postgrestest.Start(t)
	s.Do("weir", "CREATE ROLE plain LOGIN")
	s.Do("weir", printedSchema(t)+
		"; CREATE OR REPLACE FUNCTION weir.version() RETURNS int4 LANGUAGE sql AS 'SELECT 6'; ALTER SCHEMA "+
		"weir RENAME TO before")
	s.Do("weir", "CREATE ROLE proxies LOGIN; GRANT USAGE ON SCHEMA before TO proxies; GRANT EXECUTE ON ALL FUNCTIONS "+
		"IN SCHEMA before TO proxies")
	s.Do("weir", "CREATE ROLE mallory LOGIN; CREATE SCHEMA others AUTHORIZATION mallory")
	s.Do("weir", "CREATE SCHEMA later; CREATE FUNCTION later.version() RETURNS int4 LANGUAGE sql AS 'SELECT 99'")
	url := s.URL("weir:s3cret", "weir")
	const run = "run the SQL that proxy -postgres-schema prints"
	for _, test := range []struct {
		status int
		text   string
		url    string
		env    []string
	}{
		{1, "schema later has version 99", url, []string{"POSTGRES_SCHEMA", "later"}},
		{2, "there is no such database", s.URL("weir:s3cret", "missing"), nil},
		{2, "the user lacks a right", s.URL("plain:s3cret", "weir"), nil},
		{1, "tables or functions are missing, or of another version: schema weir is missing: run", url,
			[]string{"POSTGRES_MIGRATE", "false"}},
		{1, "schema before has version 6, and this program needs 10: " + run, url,
			[]string{"POSTGRES_MIGRATE", "false", "POSTGRES_SCHEMA", "before"}},
		{2, "it, or a function in it, belongs to role mallory", url, []string{"POSTGRES_SCHEMA", "others"}},
		{2, run + " as that role", url, []string{"POSTGRES_SCHEMA", "others", "POSTGRES_MIGRATE", "false"}},
		{2, `schema "before" belongs to role weir_owner: ` + run, s.URL("proxies:s3cret", "weir"),
			[]string{"POSTGRES_SCHEMA", "before"}},
		{2, "must be a schema of Weir's own", url, []string{"POSTGRES_SCHEMA", "public"}},
		{2, "names no user", "postgres://weir:12/s3cret@localhost/weir", nil},
		{2, "correct the parameters of POSTGRES_URL", url + "&ssl_mode=require", nil},
		{2, "excludes REDIS_HOST", url, []string{"REDIS_HOST", "localhost"}},
		{2, "does not begin with postgres://", "weir:s3cret@localhost", nil},
		{2, "POSTGRES_SCHEMA", url, []string{"POSTGRES_SCHEMA", "Weir"}},
	} {
		cannotStart(t, append(test.env, "POSTGRES_URL", test.url), test.status, test.text)
	}
	p := launch(t, []string{"POSTGRES_URL", url, "POSTGRES_MIGRATE", "false", "POSTGRES_SCHEMA", "before",
		"STORE_START", "anyway"})
	if line := p.Logged("ERROR PostgresClient"); !strings.Contains(line, run) {
		t.Error(line)
	}
}

// Settings of a store that is not used are told.
func TestPostgresSettingsWithoutURL(t *testing.T) {
	p := launch(t, []string{"POSTGRES_TIMEOUT", "2s", "POSTGRES_DURABLE", "true", "POSTGRES_SCHEMA", "limits",
		"POSTGRES_MIGRATE", "false"})
	for _, name := range []string{"POSTGRES_TIMEOUT", "POSTGRES_DURABLE"} {
		p.Logged("WARN Proxy - " + name + " has no effect while POSTGRES_URL is not set")
	}
	for _, name := range []string{"POSTGRES_SCHEMA", "POSTGRES_MIGRATE"} {
		p.Logged("WARN Proxy - " + name + " has no effect while neither POSTGRES_URL nor DEFER_URL names PostgreSQL")
	}
}

// The SQL that is printed makes what a proxy needs that makes nothing itself.
func TestPostgresSchemaPrinted(t *testing.T) {
	s := postgrestest.Start(t)
	s.Do("weir", printedSchema(t, "POSTGRES_SCHEMA", "limits"))
	s.Do("weir", "CREATE ROLE plain LOGIN; GRANT USAGE ON SCHEMA limits TO plain; GRANT EXECUTE ON ALL FUNCTIONS IN "+
		"SCHEMA limits TO plain")
	p := launch(t, append(inPostgres(s.URL("plain", "weir")), "POSTGRES_SCHEMA", "limits", "POSTGRES_MIGRATE", "false"))
	p.Await("GET /actuator/health", 200, `"mode":"postgres"`)
}

const postgresBack = "INFO PostgresClient - PostgreSQL reconnected, resuming normal operation"

// A postgresWorld is a proxy with one permit per key and century in PostgreSQL.
type postgresWorld struct {
	*running
	keys int
	ends int // of outages so far
}

func newPostgresWorld(t *testing.T, url string, env ...string) *postgresWorld {
	w := &postgresWorld{running: launch(t, append(append(inPostgres(url), "EVENT_LOOPS", "1"), env...))}
	w.Await("PUT /config/rules", 200, `"stored":true`, windows(`rules:
- {id: x, match: {path: /}, key: ["header:X-A"], limit: {algorithm: fixed, limit: 1, window: C}}
- {id: y, match: {path: /log}, limit: {algorithm: sliding_log, limit: 1, window: C}}`))
	w.decides()
	w.ends = len(w.Log.Lines(postgresBack)) // a slow start may be an outage
	return w
}

// ask sends a request of a key, and fails the test if the answer is the proxy's fault.
func (w *postgresWorld) ask(key int) (admitted bool) {
	w.T.Helper()
	status, text := w.Call(fmt.Sprint("GET / X-A=", key))
	if status != 200 && status != 429 {
		w.T.Errorf("answered %d %.300s", status, text)
	}
	return status == 200
}

// decides waits until a fresh key is admitted once only.
func (w *postgresWorld) decides() {
	w.T.Helper()
	testkit.Eventually(w.T, "limits are decided", func() bool { w.keys++; return w.ask(w.keys) && !w.ask(w.keys) })
}

// outage has something spoil the store, waits until it is told, has no request refused until
// it is mended, and waits for decisions. Without mend the proxy mends it by itself, at any time.
func (w *postgresWorld) outage(spoil func(), told string, mend func()) {
	w.T.Helper()
	spoil()
	testkit.Eventually(w.T, "it is told: "+told,
		func() bool { w.keys++; w.ask(w.keys); return len(w.Log.Lines(told)) > 0 })
	for i := range 5 {
		if i == 0 || mend == nil {
			w.keys++ // one that is decided again is refused the second time
		}
		if !w.ask(w.keys) {
			w.T.Errorf("%s: refused while PostgreSQL cannot decide", told)
		}
	}
	if mend != nil {
		mend()
	}
	w.ends++
	w.LoggedTimes(postgresBack, w.ends)
	w.decides()
}

// Whatever keeps PostgreSQL from deciding is told with what to do about it, refuses nobody
// and ends by itself when its cause has.
func TestPostgresFaults(t *testing.T) {
	s := postgrestest.Start(t, "max_connections=15", "superuser_reserved_connections=3", "max_wal_senders=0")
	s.Do("weir", "CREATE ROLE plain LOGIN; GRANT CREATE ON DATABASE weir TO plain")
	w := newPostgresWorld(t, s.URL("plain", "weir"))

	// Where one key more goes on another page there is no room for it.
	w.outage(func() {
		s.Do("weir",
			"INSERT INTO weir.keys SELECT 'filler' || n::text::bytea, 0, 0, 0, 0, 0, 0, 9e15 FROM generate_series(1, 12000) n")
		bytes := testkit.Must(strconv.ParseInt(s.Do("weir", "SELECT pg_relation_size('weir.keys')"), 10, 64))(t)
		s.FilesMax(bytes + 4096)
	}, "make room on the server's disk", func() { s.FilesMax(-1) })

	w.outage(func() { s.Do("weir", "DROP FUNCTION weir.take_1(int8, int4, int4[], bytea[], int8[], int8[])") },
		"take_1", nil)

	w.outage(func() {
		s.Do("weir", "ALTER FUNCTION weir.take_1 OWNER TO weir; REVOKE ALL ON FUNCTION weir.take_1 FROM plain")
	}, "grant the user of POSTGRES_URL",
		func() { s.Do("weir", "GRANT EXECUTE ON FUNCTION weir.take_1 TO plain") })

	var held []*pgconn.PgConn
	defer func() { release(held) }()
	w.outage(func() { held = exhaust(t, s) }, "raise max_connections", func() { release(held) })
}

// exhaust takes all connections that there are, those of the proxy too.
func exhaust(t *testing.T, s *postgrestest.Server) (held []*pgconn.PgConn) {
	t.Helper()
	s.Do("weir",
		"ALTER ROLE plain CONNECTION LIMIT 0; SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'plain'")
	s.Do("weir", "CREATE ROLE greedy LOGIN")
	testkit.Eventually(t, "all connections are taken", func() bool {
		conn, err := pgconn.Connect(context.Background(), s.URL("greedy", "weir"))
		if err == nil {
			held = append(held, conn)
		}
		return err != nil && len(held) >= 12
	})
	s.Do("weir", "ALTER ROLE plain CONNECTION LIMIT -1")
	return held
}

func release(held []*pgconn.PgConn) {
	for _, conn := range held {
		_ = conn.Close(context.Background()) // it may have been closed before
	}
}

// When the primary dies its standby takes over once it is promoted, with the rules and with
// empty counters. A proxy that knows the standby alone is told where to look.
func TestPostgresPromotion(t *testing.T) {
	primary := postgrestest.Start(t)
	standby := primary.Standby()
	w := newPostgresWorld(t, postgrestest.URLs("weir", "weir", primary, standby))
	testkit.Eventually(t, "the standby has the rules", func() bool {
		// the table may be missing yet
		n, err := standby.Try("weir", "SELECT count(*) FROM weir.documents WHERE name LIKE '%rules'")
		return err == nil && n == "1"
	})
	lone := launch(t, inPostgres(standby.URL("weir", "weir")))
	lone.Logged("name the primary in POSTGRES_URL")
	w.outage(func() { primary.Signal(syscall.SIGKILL) }, "PostgreSQL connection lost, entering fail-open mode",
		func() { standby.Do("postgres", "SELECT pg_promote()") })
	w.Require("GET /config/rules", 200, `"x"`)
	lone.Logged(postgresBack)
}

// A pooler that is killed and starts again.
func TestPostgresPoolerRestarted(t *testing.T) {
	s := postgrestest.Start(t)
	pooler := s.Pooler(4)
	w := newPostgresWorld(t, pooler.URL("weir", "weir"))
	w.outage(func() { pooler.Signal(syscall.SIGKILL) }, "PostgreSQL connection lost, entering fail-open mode",
		pooler.RestartPooler)
}

// A postgresPair is two proxies with one PostgreSQL.
type postgresPair [2]*postgresWorld

// admits asks both for a fresh key, the one first that is told, and says what both did.
func (p postgresPair) admits(first int) (one, other bool) {
	p[0].keys++
	return p[first].ask(p[0].keys), p[1-first].ask(p[0].keys)
}

// exact reports whether a fresh key is admitted to whoever asks first, and to nobody else.
func (p postgresPair) exact(first int) bool {
	one, other := p.admits(first)
	return one && !other
}

// staysExact fails the test if a key is admitted twice, or not at all, though both proxies have
// had it decided.
func (p postgresPair) staysExact(t *testing.T) {
	t.Helper()
	for key := range 20 {
		undecided := p[0].undecided() + p[1].undecided()
		one, other := p.admits(key % 2)
		if (!one || other) && p[0].undecided()+p[1].undecided() == undecided {
			t.Errorf("a fresh key is admitted to the first who asks: %v, to the second: %v", one, other)
		}
	}
}

// When PostgreSQL is back two proxies decide exactly again, whatever it was away for, and from
// then on. While it is away they refuse nobody; what they had counted before a pause or a shutdown
// still counts. How soon they try again is a test of store/lane.
func TestPostgresReturns(t *testing.T) {
	s := postgrestest.Start(t)
	url := s.URL("weir", "weir")
	for i, test := range []struct {
		name        string
		kept        bool // what was counted
		leave, mend func()
	}{
		{"killed", false, func() { s.Signal(syscall.SIGKILL) }, s.Restart},
		{"stopped", true, func() { s.Signal(syscall.SIGSTOP) }, func() { s.Signal(syscall.SIGCONT) }},
		{"shut down", true, s.Shutdown, s.Restart},
	} {
		t.Run(test.name, func(t *testing.T) {
			both := postgresPair{newPostgresWorld(t, url, "POSTGRES_TIMEOUT", "500ms"),
				newPostgresWorld(t, url, "POSTGRES_TIMEOUT", "500ms")}
			both[0].keys = 1_000_000 * (i + 1) // nobody has asked for those
			if i == 0 {
				both[0].Logged("INFO PostgresClient - Schema migrated from=0 to=")
			}
			for range 2 {
				both.outage(t, test.leave, test.mend, test.kept)
			}
		})
	}
}

// outage has PostgreSQL leave and return; kept says whether it knows what was counted before.
func (p postgresPair) outage(t *testing.T, leave, mend func(), kept bool) {
	t.Helper()
	testkit.Eventually(t, "a key is used up", func() bool { return p.exact(0) })
	used := p[0].keys
	lost := [2]int{len(p[0].Log.Lines("PostgreSQL connection lost")), len(p[1].Log.Lines("PostgreSQL connection lost"))}
	leave()
	for i, w := range p {
		testkit.Eventually(t, "it is told", func() bool {
			p[0].keys++
			w.ask(p[0].keys)
			return len(w.Log.Lines("PostgreSQL connection lost")) > lost[i]
		})
	}
	for first := range p {
		if one, other := p.admits(first); !one || !other {
			t.Errorf("while PostgreSQL is unavailable proxy %v admits %t and %t, want both", first, one, other)
		}
	}
	mend()
	testkit.Eventually(t, "limits are exact", func() bool { return p.exact(0) && p.exact(1) })
	p.staysExact(t)
	for i, w := range p {
		w.Await("GET /log", 429, `"rule":"y"`)
		w.Require("GET /config/rules", 200, `"x"`)
		undecided := w.undecided()
		if w.ask(used) && kept && w.undecided() == undecided {
			t.Errorf("proxy %d has forgotten a key that was used up before", i)
		}
	}
}
