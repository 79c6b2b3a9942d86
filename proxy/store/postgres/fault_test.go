package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"weir/internal/test/testkit"
	"weir/proxy/store"
	"weir/proxy/store/postgres/postgrestest"
)

// admit takes one permit and fails the test unless it is granted.
func admit(t testing.TB, b *backend) {
	t.Helper()
	if g := decide(b, 1, fixed(1000)); g.Err != nil || g.Granted != 1 {
		t.Fatalf("%d granted, %v", g.Granted, g.Err)
	}
}

// A server that does not answer for a while: asks are late, and afterwards the same
// connections decide.
func TestStopped(t *testing.T) {
	t.Parallel()
	s, _ := newWorld(t)
	b := openBackend(t, Config{URL: s.URL("weir", "weir")})
	if err := b.Probe(background); err != nil {
		t.Fatal(err)
	}
	admit(t, b)
	s.Signal(syscall.SIGSTOP)
	hurried := &backend{cfg: b.cfg, schema: b.schema, pool: b.pool, documents: b.documents, counts: b.counts}
	hurried.cfg.Timeout = 20 * time.Millisecond
	for range 8 {
		if g := decide(hurried, 1, fixed(1000)); b.Classify(g.Err).Class != store.TimeoutFault {
			t.Errorf("while it is stopped: %v", g.Err)
		}
	}
	s.Signal(syscall.SIGCONT)
	testkit.Eventually(t, "it decides again", func() bool { return b.Probe(background) == nil })
	testkit.Eventually(t, "and in time", func() bool {
		g := decide(b, 1, fixed(1000))
		return g.Err == nil &&
			g.Granted == 1
	})
}

// A server that is killed and starts again: asks fail at once, then all is as before.
func TestKilled(t *testing.T) {
	t.Parallel()
	s, b := newWorld(t)
	admit(t, b)
	if testkit.Must(b.CompareAndSet(background, "doc", 0, []byte("{}")))(t) != 1 {
		t.Error("the document was not written")
	}
	s.Signal(syscall.SIGKILL)
	for range 2 * b.cfg.Connections {
		if g := decide(b, 1, fixed(1000)); b.Classify(g.Err).Class != store.OutageFault {
			t.Errorf("while it is away: %v", g.Err)
		}
	}
	if err := b.Probe(background); b.Classify(err).Class != store.OutageFault {
		t.Errorf("while it is away the probe says %v", err)
	}
	s.Restart()
	testkit.Eventually(t, "it decides again", func() bool { return b.Probe(background) == nil })
	testkit.Eventually(t, "over all connections", func() bool { return decide(b, 1, fixed(1000)).Err == nil })
	testkit.Eventually(t, "the document survives",
		func() bool { doc, err := b.Read(background, "doc"); return err == nil && doc.Version == 1 })
}

// With tables that are logged a crash forgets nothing that has reached the disk.
func TestDurable(t *testing.T) {
	t.Parallel()
	s := postgrestest.Start(t)
	b := openBackend(t, Config{URL: s.URL("weir", "weir"), Durable: true})
	if err := b.Probe(background); err != nil {
		t.Fatal(err)
	}
	if g := decide(b, 1, fixed(1)); g.Err != nil || g.Granted != 1 {
		t.Fatalf("%d granted, %v", g.Granted, g.Err)
	}
	s.Do("weir", "CHECKPOINT")
	s.Signal(syscall.SIGKILL)
	s.Restart()
	testkit.Eventually(t, "it decides again", func() bool {
		return b.Probe(background) == nil &&
			decide(b, 1, fixed(1)).Err == nil
	})
	if g := decide(b, 1, fixed(1)); g.Err == nil && g.Granted != 0 {
		t.Error("the crash has refilled a key")
	}
}

// Under a stricter default isolation level decisions are exact and none fails.
func TestSerializableDefault(t *testing.T) {
	t.Parallel()
	s, _ := newWorld(t)
	for _, level := range []string{"serializable", "repeatable read"} {
		s.Do("weir", fmt.Sprintf("ALTER DATABASE weir SET default_transaction_isolation = '%s'", level))
		b := openBackend(t, Config{URL: s.URL("weir", "weir"), Connections: 4, KeyPrefix: level})
		if err := b.Probe(background); err != nil {
			t.Fatal(err)
		}
		exactly(t, b)
	}
}

// exactly asks from several goroutines for more than there is. An ask that was late on a
// busy machine is as good as one refused.
func exactly(t *testing.T, b *backend) {
	t.Helper()
	const most = 100
	var mu sync.Mutex
	var all sync.WaitGroup
	granted, late := 0, 0
	for range 4 {
		all.Go(func() {
			for range 20 {
				g := decide(b, 2, fixed(most))
				mu.Lock()
				if b.Classify(g.Err).Class == store.TimeoutFault {
					late++
				} else if g.Err != nil {
					t.Error(g.Err)
				}
				if g.Err == nil {
					granted += g.Granted
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	if granted > most || late == 0 && granted != most {
		t.Errorf("%d admitted of %d, %d late", granted, most, late)
	}
}

// Through PgBouncer in transaction mode everything works, also when the server's
// connections are ended behind it.
func TestPgBouncer(t *testing.T) {
	t.Parallel()
	s, _ := newWorld(t)
	b := openBackend(t, Config{URL: s.Pooler(2).URL("weir", "weir"), Connections: 4, Schema: "pooled"})
	testkit.Eventually(t, "it decides", func() bool { return b.Probe(background) == nil })
	exactly(t, b)
	if b.oids[takeAny].Load() == 0 {
		t.Error("functions are called by statements")
	}
	large := make([]byte, 1<<20)
	version := testkit.Must(b.CompareAndSet(background, "doc", 0, large))(t)
	if got := len(testkit.Must(b.Read(background, "doc"))(t).Body); version != 1 || got != len(large) {
		t.Errorf("the document has version %d and %d bytes, want 1 and %d", version, got, len(large))
	}
	s.Do("postgres", "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'weir'")
	testkit.Eventually(t, "it decides again", func() bool { return b.Probe(background) == nil })
	s.Do("weir", "ALTER DATABASE weir SET default_transaction_isolation = 'serializable'")
	s.Do("postgres", "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'weir'")
	testkit.Eventually(t, "it decides under another isolation level", func() bool { return b.Probe(background) == nil })
	b.cfg.KeyPrefix = "strict"
	exactly(t, b)
}

// Where an OID has become that of something else, as after a function was made anew, at most one
// call fails; then a statement calls the function by its name until its OID is found.
func TestFunctionCall(t *testing.T) {
	t.Parallel()
	s, b := newWorld(t)
	oidOf := func(name string) uint32 {
		oid := testkit.Must(strconv.ParseUint(s.Do("weir", "SELECT 'weir."+name+"'::regproc::oid"), 10, 32))(t)
		return uint32(oid)
	}
	for f := range functions {
		if found, want := b.oids[f].Load(), oidOf(functions[f]); found != want {
			t.Errorf("%s is called as %d, want %d", functions[f], found, want)
		}
	}
	s.Do("weir", "CREATE FUNCTION weir.number(int8, int4, int4[], bytea[], int8[], int8[]) RETURNS int8 LANGUAGE sql "+
		"AS 'SELECT 1::int8'")
	found := b.oids[takeAny].Load()
	for name, test := range map[string]struct {
		oid    uint32
		failed int
	}{
		"nothing":                         {1, 0},
		"a function of other arguments":   {oidOf("take_one_1"), 0},
		"a function with another result":  {oidOf("number"), 1},
		"a function without any argument": {oidOf("version"), 0},
	} {
		b.oids[takeAny].Store(test.oid)
		failed := 0
		for range 3 {
			g := decide(b, 1, fixed(1000))
			switch class := b.Classify(g.Err).Class; {
			case class == store.ItemFault:
				failed++
			case g.Err != nil || g.Granted != 1:
				t.Errorf("%s: %d granted, %v", name, g.Granted, g.Err)
			}
		}
		if left := b.oids[takeAny].Load(); failed != test.failed || left != 0 {
			t.Errorf("%s: %d calls failed, want %d; then %d is called", name, failed, test.failed, left)
		}
		b.identify(background)
		if again := b.oids[takeAny].Load(); again != found {
			t.Errorf("%s: %d is found, want %d", name, again, found)
		}
	}
	given, giveUp := context.WithCancel(background)
	giveUp()
	b.identify(given)
	if again := b.oids[takeAny].Load(); again != found {
		t.Errorf("without an answer %d is called, want %d", again, found)
	}
	for prefix, oid := range map[string]uint32{"message": found, "statement": 0} {
		b.cfg.KeyPrefix = prefix
		b.oids[takeAny].Store(oid)
		exactly(t, b)
	}
}

// A refusing writer spoils messages that call functions, as something in between may that does not
// know them: the server closes the connection.
type refusing struct {
	io.Writer
	passes *atomic.Bool
}

func (r refusing) Write(p []byte) (int, error) {
	if len(p) > 0 && p[0] == 'F' && !r.passes.Load() {
		p = append([]byte{'?'}, p[1:]...)
	}
	return r.Writer.Write(p)
}

// While functions cannot be called by messages, statements call them.
func TestCallRefused(t *testing.T) {
	t.Parallel()
	s := postgrestest.Start(t)
	b := openBackend(t, Config{URL: s.URL("weir", "weir"), Connections: 2})
	var passes atomic.Bool
	b.pool.cfg.BuildFrontend = func(r io.Reader, w io.Writer) *pgproto3.Frontend {
		return pgproto3.NewFrontend(r, refusing{w, &passes})
	}
	if err := b.Probe(background); err != nil {
		t.Fatal(err)
	}
	for f := range functions {
		if oid := b.oids[f].Load(); oid != 0 {
			t.Errorf("%s is called as %d", functions[f], oid)
		}
	}
	exactly(t, b)
	passes.Store(true)
	if b.identify(background); b.oids[takeAny].Load() == 0 {
		t.Error("functions are still called by statements")
	}
}

// A call that is given up does not go on in the server, where it could hold locks, even if the way
// there is slow; the next one does not wait until it has ended.
func TestCallGivenUp(t *testing.T) {
	t.Parallel()
	s, b := newWorld(t)
	oid := testkit.Must(strconv.Atoi(s.Do("weir",
		"CREATE FUNCTION weir.sleep() RETURNS int8 LANGUAGE sql AS 'SELECT 1::int8 FROM pg_sleep(600)'; SELECT "+
			"'weir.sleep'::regproc::oid")))(t)
	cfg := b.pool.cfg.Copy()
	dial := cfg.DialFunc
	cfg.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		select {
		case <-time.After(300 * time.Millisecond):
			return dial(ctx, network, address)
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	p := newPool(cfg, 1, time.Second)
	defer p.close()
	var sleep atomic.Uint32
	sleep.Store(uint32(oid))
	_, err := p.run(&job{ctx: background, silent: time.Second, function: &sleep})
	if b.Classify(err).Class != store.TimeoutFault {
		t.Errorf("given up with %v", err)
	}
	testkit.Eventually(t, "the server has ended it", func() bool {
		return s.Do("postgres",
			"SELECT count(*) FROM pg_stat_activity WHERE datname = 'weir' AND state LIKE '%fastpath%'") == "0"
	})
	exactly(t, b)
}

// What this side has given up says nothing about the server.
func TestGivenUp(t *testing.T) {
	t.Parallel()
	for _, err := range []error{context.Canceled, fmt.Errorf("edit: %w", context.Canceled),
		&connectError{context.Canceled}} {
		if f := new(backend).Classify(err); f != (store.Fault{}) {
			t.Errorf("%v is %+v", err, f)
		}
	}
}

// An error that only an operator can correct is logged as such, in one line that says what to do.
func TestMisconfigured(t *testing.T) {
	t.Parallel()
	s, _ := newWorld(t)
	s.Do("weir", "CREATE ROLE secret LOGIN PASSWORD 'hidden'; CREATE ROLE nobody LOGIN; CREATE ROLE tls LOGIN; CREATE "+
		"SCHEMA later; CREATE FUNCTION later.version() RETURNS int4 LANGUAGE sql AS 'SELECT 99'; GRANT USAGE ON "+
		"SCHEMA later TO nobody")
	hba := filepath.Join(s.Data(), "pg_hba.conf")
	if err := os.WriteFile(hba, []byte(
		"host all secret all scram-sha-256\nhost all outsider all reject\nhostssl all tls all trust\nhostnossl all tls "+
			"all reject\nhost all all all trust\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	s.Do("weir", "SELECT pg_reload_conf()")
	url := s.URL("secret:s3cret", "weir")
	testkit.Eventually(t, "passwords are asked for",
		func() bool { _, err := pgconn.Connect(background, url); return err != nil })
	for _, test := range []struct {
		cfg    Config
		cause  store.MisconfigCause
		remedy string
	}{
		{Config{URL: url}, store.Unauthenticated, "correct user and password"},
		{Config{URL: s.URL("outsider", "weir")}, store.Unauthenticated, "allow the user of POSTGRES_URL"},
		{Config{URL: s.URL("tls", "weir")}, store.Unauthenticated, "set the sslmode that it requires"},
		{Config{URL: old(t)}, store.WrongProtocol, "name one of version 13 or later in POSTGRES_URL"},
		{Config{URL: s.URL("weir", "missing")}, store.NoDatabase, "create the database"},
		{Config{URL: s.URL("nobody", "weir")}, store.Unauthorized, "grant"},
		{Config{URL: s.URL("nobody", "weir"), Schema: "own"}, store.Unauthorized, "grant CREATE"},
		{Config{URL: s.URL("weir", "weir"), Schema: "own", Manual: true}, store.NoSchema, "proxy -postgres-schema prints"},
		{Config{URL: s.URL("nobody", "weir"), Schema: "later"}, store.NoSchema,
			"has version 99, and this program knows " + strconv.Itoa(schemaVersion)},
		{Config{URL: s.URL("weir", "weir") + "&ssl_mode=require"}, store.WrongProtocol,
			"correct the parameters of POSTGRES_URL"},
		{Config{URL: s.URL("weir", "weir") + "&search_path=%22"}, store.WrongProtocol,
			"correct the parameters of POSTGRES_URL"},
		{Config{URL: strings.Replace(s.URL("weir", "weir"), "disable", "require", 1)}, store.WrongProtocol, "sslmode"},
	} {
		b := openBackend(t, test.cfg)
		err := b.Probe(background)
		permanent, ok := errors.AsType[*store.MisconfiguredError](error(b.Classify(err).Permanent))
		switch {
		case err == nil || !ok || permanent == nil:
			t.Errorf("%s: %v", test.remedy, err)
		case permanent.Cause != test.cause || strings.Count(permanent.Error(), test.remedy) != 1:
			t.Errorf("%v, want %v with %q", permanent, test.cause, test.remedy)
		case strings.Contains(permanent.Error(), "version 0"):
			t.Errorf("%v: there is no schema that has a version", permanent)
		case strings.Contains(permanent.Error(), "s3cret"), strings.ContainsAny(permanent.Error(), "\n\t"):
			t.Errorf("not one line: %q", permanent)
		}
	}
}

// old is the URL of a PostgreSQL 12, or of what says that it is one.
func old(t *testing.T) string {
	addr := testkit.Serve(t, func(conn net.Conn) {
		server := pgproto3.NewBackend(conn, conn)
		_, _ = server.ReceiveStartupMessage() // what follows it fails too
		server.Send(&pgproto3.AuthenticationOk{})
		server.Send(&pgproto3.ParameterStatus{Name: "server_version", Value: "12.22 (Debian 12.22-1)"})
		server.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
		_ = server.Flush()
		_, _ = server.Receive()
		_ = conn.Close()
	})
	return "postgres://weir@" + addr + "/weir?sslmode=disable"
}

// With no connection left the store counts as away until there is one.
func TestConnectionsExhausted(t *testing.T) {
	t.Parallel()
	s := postgrestest.Start(t, "max_connections=12", "superuser_reserved_connections=3", "max_wal_senders=0")
	s.Do("weir", "CREATE ROLE plain LOGIN; GRANT CREATE ON DATABASE weir TO plain")
	var held []*pgconn.PgConn
	testkit.Eventually(t, "all connections are taken", func() bool { // the server may not have ended the one before yet
		conn, err := pgconn.Connect(background, s.URL("plain", "weir"))
		if err == nil {
			held = append(held, conn)
		}
		return err != nil && len(held) == 12-3
	})
	b := openBackend(t, Config{URL: s.URL("plain", "weir")})
	err := b.Probe(background)
	if f := b.Classify(err); f.Class != store.OutageFault || f.Code != "53300" || f.Permanent != nil ||
		!strings.Contains(fmt.Sprint(err), "max_connections") {
		t.Errorf("%+v: %v", f, err)
	}
	for _, conn := range held {
		_ = conn.Close(background)
	}
	testkit.Eventually(t, "it decides", func() bool { return b.Probe(background) == nil })
}

// A row that holds something else concerns its own group only.
func TestForeignRow(t *testing.T) {
	t.Parallel()
	s, b := newWorld(t)
	admit(t, b)
	s.Do("weir", "UPDATE weir.keys SET tag = 99::int8 << 56")
	mine := &store.Group{N: 1, Counters: []store.Counter{{Rule: "r", Key: []byte("key"), Limit: fixed(1000), Cost: 1}}}
	other := &store.Group{N: 1, Counters: []store.Counter{{Rule: "r", Key: []byte("other"), Limit: fixed(1000), Cost: 1}}}
	b.Decide(background, &store.Batch{Groups: []*store.Group{mine, other}})
	if b.Classify(mine.Err).Class != store.ItemFault || other.Err != nil || other.Granted != 1 {
		t.Errorf("%v, %v, %d granted", mine.Err, other.Err, other.Granted)
	}
	if _, err := b.Add(background, "r", []byte("key"), 1); b.Classify(err).Class != store.ItemFault {
		t.Errorf("giving: %v", err)
	}
	if forgotten, err := b.Forget(background, "r", []byte("key")); !forgotten || err != nil {
		t.Errorf("forgetting: %v, %v", forgotten, err)
	}
	admit(t, b)
}

// Connections that the server has ended while they were idle fail no statement.
func TestEndedWhileIdle(t *testing.T) {
	t.Parallel()
	s, b := newWorld(t)
	exactly(t, b)
	const of = " FROM pg_stat_activity WHERE application_name = 'weir'"
	s.Do("weir", "SELECT pg_terminate_backend(pid)"+of)
	testkit.Eventually(t, "all have ended", func() bool { return s.Do("weir", "SELECT count(*)"+of) == "0" })
	b.cfg.KeyPrefix = "again"
	for range 2 * b.cfg.Connections {
		admit(t, b)
	}
}

// What somebody has removed is noticed by the probe, and made again if that is allowed.
func TestRemoved(t *testing.T) {
	t.Parallel()
	s, b := newWorld(t)
	manual := openBackend(t, Config{URL: s.URL("weir", "weir"), Manual: true})
	for _, sql := range []string{
		"DROP FUNCTION weir.take_1(int8, int4, int4[], bytea[], int8[], int8[])", "DROP TABLE weir.keys CASCADE",
		"DROP SCHEMA weir CASCADE",
	} {
		s.Do("weir", sql)
		for range 2 {
			if f := manual.Classify(manual.Probe(background)); f.Permanent == nil || f.Permanent.Cause != store.NoSchema {
				t.Errorf("%s: the probe finds %+v", sql, f)
			}
		}
		if err := b.Probe(background); err != nil {
			t.Errorf("%s: it is not made again: %v", sql, err)
		}
		admit(t, b)
	}
}

// What several attempts have in common is in the error once.
func TestConnectError(t *testing.T) {
	t.Parallel()
	for told, want := range map[string]string{
		"failed:\n\ta:1: refused\n\ta:1: refused": "connect to PostgreSQL: failed: a:1: refused",
		"failed:\n\ta:1: no TLS\n\ta:1: password": "connect to PostgreSQL: failed: a:1: no TLS; a:1: password",
		"failed: lookup: no a\n\tlookup: no a":    "connect to PostgreSQL: failed: lookup: no a",
		"failed: no TLS":                          "connect to PostgreSQL: failed: no TLS",
	} {
		if got := (&connectError{errors.New(told)}).Error(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// A batch whose row somebody else has locked is given up as one whose key is, so that it
// does not keep a connection from other keys.
func TestLockedRow(t *testing.T) {
	t.Parallel()
	s, b := newWorld(t)
	admit(t, b)
	lockRows(t, s)
	b.cfg.Timeout = 100 * time.Millisecond
	b.pool.silent = 2 * time.Second // then the connection is closed
	g := &store.Group{N: 1, Counters: []store.Counter{{Rule: "r", Key: []byte("key"), Limit: fixed(1000), Cost: 1}}}
	b.Decide(background, &store.Batch{Groups: []*store.Group{g}})
	if f := b.Classify(g.Err); f.Code != "55P03" || f.Class != store.TimeoutFault ||
		!strings.Contains(g.Err.Error(), "POSTGRES_TIMEOUT") {
		t.Errorf("%+v, %v", f, g.Err)
	}
}
