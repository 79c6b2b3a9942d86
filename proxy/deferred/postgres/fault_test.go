package postgres

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"weir/internal/test/testkit"
	"weir/proxy/deferred"
	"weir/proxy/deferred/deferredtest"
	"weir/proxy/store/postgres/postgrestest"
)

// holds stops a flood, and wants what was accepted to be all that there is.
func holds(t *testing.T, f *deferredtest.Flood, q *Queue, s *postgrestest.Server) {
	t.Helper()
	want := fmt.Sprint(f.Stop())
	testkit.Eventually(t, "nothing is in doubt",
		func() bool { q.mu.Lock(); defer q.mu.Unlock(); return len(q.doubtful) == 0 })
	if got := s.Do("weir", "SELECT count(*) FROM weir.deferred WHERE state < 7"); got != want {
		t.Errorf("%s are there, %s were accepted", got, want)
	}
	if sums := s.Do("weir", "SELECT (SELECT sum(entries) FROM weir.lines) || ' ' || (SELECT sum(entries) FROM "+
		"weir.deferred_clients) || ' ' || (SELECT sum(entries) FROM weir.deferred_totals)"); sums != want+" "+want+" "+want {
		t.Errorf("lines, clients and totals count %s, there are %s", sums, want)
	}
}

const (
	lost = "Queue cannot be written, refusing instead"
	back = "Queue writes again"
)

// A server that is killed, stopped or shut down under load: what was accepted is there, what was
// not is not, and each outage is told once.
func TestOutages(t *testing.T) {
	t.Parallel()
	s := postgrestest.Start(t)
	for name, outage := range map[string]struct{ leave, mend func() }{
		"killed":    {func() { s.Signal(syscall.SIGKILL) }, s.Restart},
		"stopped":   {func() { s.Signal(syscall.SIGSTOP) }, func() { s.Signal(syscall.SIGCONT) }},
		"shut down": {s.Shutdown, s.Restart},
	} {
		t.Run(name, func(t *testing.T) {
			log := new(testkit.Log)
			q := openQueue(t, Config{URL: s.URL("weir", "weir"), Log: log.Logger(), silence: 2 * time.Second})
			f := deferredtest.StartFlood(t, q)
			for range 2 {
				f.RequireGrowth()
				n := log.Count(lost)
				outage.leave()
				testkit.Eventually(t, "it is told", func() bool { return log.Count(lost) > n && f.Unstored.Load() > 0 })
				outage.mend()
				testkit.Eventually(t, "it is over", func() bool { return log.Count(back) == log.Count(lost) })
			}
			f.RequireGrowth()
			holds(t, f, q, s)
			if log.Count(lost) != log.Count(back) {
				t.Errorf("told %d times that it fails, %d times that it works", log.Count(lost), log.Count(back))
			}
			s.Do("weir", "DROP SCHEMA weir CASCADE")
		})
	}
}

// TestPutsDuringOutage tests what every queue guarantees while its store is unavailable.
func TestPutsDuringOutage(t *testing.T) {
	t.Parallel()
	s := postgrestest.Start(t)
	q := openQueue(t, Config{URL: s.URL("weir", "weir"), silence: 2 * time.Second})
	deferredtest.PutsDuringOutage(t, q, func() { s.Signal(syscall.SIGSTOP) }, func() { s.Signal(syscall.SIGCONT) })
}

// What is settled while PostgreSQL is away is written when it is back.
func TestSettledLater(t *testing.T) {
	t.Parallel()
	s := postgrestest.Start(t)
	q := openQueue(t, Config{URL: s.URL("weir", "weir")})
	e := deferredtest.NewEntry("shop")
	deferredtest.PutAccepted(t, q, e)
	claimed := deferredtest.RequireClaims(t, q, time.Now().Add(time.Second), 1)
	s.Signal(syscall.SIGKILL)
	done := make(chan error, 1)
	q.Settle(time.Now(), &deferred.Settlement{Lease: claimed[0].Lease, To: deferred.Done, Keep: time.Hour,
		Done: func(err error) { done <- err }})
	testkit.Eventually(t, "it is noticed", func() bool { return q.Stats().Err != nil })
	if got := deferredtest.Put(q, deferredtest.NewEntry("shop")); got.Outcome != deferred.Unstored {
		t.Errorf("put while it is away: %s", got.Outcome)
	}
	if _, err := q.Renew(t.Context(), time.Now(), []deferred.Lease{claimed[0].Lease}); err == nil {
		t.Error("renewed while it is away")
	}
	s.Restart()
	if err := testkit.Receive(t, done, "the settlement"); err != nil {
		t.Error(err)
	}
	if got, _, err := q.Read(t.Context(), e.ID); err != nil || got.State != deferred.Done {
		t.Errorf("%+v, %v", got, err)
	}
}

// What only a person can change ends opening with one line that names the setting and says what
// to do.
func TestMisconfigured(t *testing.T) {
	t.Parallel()
	s := postgrestest.Start(t)
	first := openQueue(t, Config{URL: s.URL("weir", "weir"), Key: bytes.Repeat([]byte{1}, deferred.SealKeyBytes)})
	deferredtest.PutAccepted(t, first, deferredtest.NewEntry("shop"))
	s.Do("weir", "CREATE ROLE secret LOGIN PASSWORD 'hidden'; CREATE ROLE nobody LOGIN; CREATE ROLE reads LOGIN; GRANT "+
		"USAGE ON SCHEMA weir TO reads; GRANT EXECUTE ON FUNCTION weir.deferred_version() TO reads;"+
		"CREATE SCHEMA later; CREATE FUNCTION later.deferred_version() RETURNS int4 LANGUAGE sql AS 'SELECT 99'; GRANT "+
		"USAGE ON SCHEMA later TO nobody")
	if err := os.WriteFile(filepath.Join(s.Data(), "pg_hba.conf"),
		[]byte("host all secret all scram-sha-256\nhost all all all trust\nhost replication all all trust\n"),
		0o644); err != nil {
		t.Fatal(err)
	}
	s.Do("weir", "SELECT pg_reload_conf()")
	testkit.Eventually(t, "passwords are asked for", func() bool {
		_, err := Open(Config{URL: s.URL("secret:s3cret", "weir"), Setting: "DEFER_URL", Schema: "weir",
			Limits: deferredtest.LargeLimits})
		return err != nil && strings.Contains(err.Error(), "password authentication failed")
	})
	for _, test := range []struct {
		cfg    Config
		remedy string
	}{
		{Config{URL: s.URL("secret:s3cret", "weir")}, "correct user and password in DEFER_URL"},
		{Config{URL: s.URL("weir", "missing")}, "create the database that DEFER_URL names"},
		{Config{URL: s.URL("nobody", "weir")}, "grant the user of DEFER_URL what proxy -postgres-schema lists"},
		{Config{URL: s.URL("reads", "weir")}, "grant the user of DEFER_URL what proxy -postgres-schema lists"},
		{Config{URL: s.URL("nobody", "weir"), Schema: "own"}, "grant CREATE on the database to the user of DEFER_URL"},
		{Config{URL: s.URL("weir", "weir"), Schema: "own", Manual: true}, "run the SQL that proxy -postgres-schema prints"},
		{Config{URL: s.URL("nobody", "weir"), Schema: "later"}, "has version 99, and this program knows " +
			strconv.Itoa(schemaVersion)},
		{Config{URL: s.URL("weir", "weir")}, "DEFER_KEY_FILE"},
		{Config{URL: s.URL("weir", "weir"), Key: bytes.Repeat([]byte{2}, deferred.SealKeyBytes)}, "DEFER_KEY_FILE"},
		{Config{URL: "weir:s3cret@localhost"}, "does not begin with postgres://"},
	} {
		cfg := test.cfg
		cfg.Setting, cfg.Limits, cfg.silence = "DEFER_URL", deferredtest.LargeLimits, testkit.Timeout
		if cfg.Schema == "" {
			cfg.Schema = "weir"
		}
		q, err := Open(cfg)
		if err == nil {
			_ = q.Close()
		}
		if err == nil || strings.Count(err.Error(), test.remedy) != 1 || strings.Contains(err.Error(), "s3cret") ||
			strings.ContainsAny(err.Error(), "\n\t") || strings.Contains(err.Error(), "POSTGRES_URL") {
			t.Errorf("%v, want one line with %q", err, test.remedy)
		}
	}
}

// A standby refuses, is told with what to do, and stores when it is promoted.
func TestStandby(t *testing.T) {
	t.Parallel()
	s := postgrestest.Start(t)
	first := openQueue(t, Config{URL: s.URL("weir", "weir")})
	deferredtest.PutAccepted(t, first, deferredtest.NewEntry("shop"))
	standby := s.Standby()
	log := new(testkit.Log)
	q := openQueue(t, Config{URL: standby.URL("weir", "weir"), Log: log.Logger()})
	if log.Count(lost) != 1 || log.Count("name the primary in DEFER_URL, or all servers") != 1 {
		t.Errorf("told %q", log)
	}
	if got := deferredtest.Put(q, deferredtest.NewEntry("shop")); got.Outcome != deferred.Unstored {
		t.Errorf("put at a standby: %s", got.Outcome)
	}
	standby.Do("postgres", "SELECT pg_promote()")
	testkit.Eventually(t, "it stores", func() bool {
		return deferredtest.Put(q, deferredtest.NewEntry("shop")).Outcome == deferred.Accepted
	})
	if log.Count(back) != 1 {
		t.Errorf("told %q", log)
	}
}

// Through PgBouncer in transaction mode everything works, also when the server's connections are
// ended behind it, and under another isolation level.
func TestPgBouncer(t *testing.T) {
	t.Parallel()
	s := postgrestest.Start(t)
	pooler := s.Pooler(2)
	log := new(testkit.Log)
	q := openQueue(t, Config{URL: pooler.URL("weir", "weir"), Log: log.Logger(), silence: 10 * time.Second})
	testkit.Eventually(t, "it is open", func() bool { return q.Stats().Err == nil })
	f := deferredtest.StartFlood(t, q)
	f.RequireGrowth()
	const end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'weir' AND pid <> pg_backend_pid()"
	s.Do("postgres", end)
	f.RequireGrowth()
	s.Do("weir", "ALTER DATABASE weir SET default_transaction_isolation = 'serializable'")
	s.Do("postgres", end)
	f.RequireGrowth()
	testkit.Eventually(t, "an entry is claimed", func() bool {
		claimed, _, err := q.Claim(t.Context(), time.Now().Add(time.Second), 1)
		for _, c := range claimed {
			done := make(chan error, 1)
			q.Settle(time.Now(), &deferred.Settlement{Lease: c.Lease, To: deferred.Waiting, Due: c.Entry.Due,
				Done: func(err error) { done <- err }})
			if err := testkit.Receive(t, done, "the settlement"); err != nil && !errors.Is(err, deferred.ErrLease) {
				t.Error(err)
			}
		}
		return err == nil && len(claimed) == 1
	})
	holds(t, f, q, s)
}

// Entries that cannot be read are given up under their rules, whatever is damaged of them, and
// hold nobody up.
func TestDamaged(t *testing.T) {
	t.Parallel()
	s, log := postgrestest.Start(t), new(testkit.Log)
	url := s.URL("weir", "weir")
	q, other := openQueue(t, Config{URL: url, Log: log.Logger()}), openQueue(t, Config{URL: url})
	for _, rule := range []string{"letters", "orders", "parcels"} { // q does not know of them
		for _, line := range []string{"a", "b"} {
			e := deferredtest.NewEntry(line)
			e.Rule = rule
			deferredtest.PutAccepted(t, other, e)
		}
	}
	s.Do("weir", "UPDATE weir.deferred SET about = 'x' WHERE rule = 'orders'; UPDATE weir.deferred SET request = 'x' "+
		"WHERE rule = 'parcels'")
	claimed := 0
	testkit.Eventually(t, "all are claimed or given up", func() bool {
		c, _, err := q.Claim(t.Context(), time.Now(), 10)
		if err != nil {
			t.Error(err)
		}
		for _, one := range c {
			claimed++
			if one.Entry.Rule != "letters" {
				t.Errorf("one of %s is claimed", one.Entry.Rule)
			}
		}
		return claimed+q.Stats().Unreadable >= 6
	})
	want := deferred.GivenUpCounts{{Rule: "orders", To: deferred.Failed}: 2, {Rule: "parcels", To: deferred.Failed}: 2}
	if given := q.Stats().GivenUp; !maps.Equal(given, want) || log.Count("cannot be read") != 4 {
		t.Errorf("given up: %v, want %v\n%s", given, want, log)
	}
	testkit.Eventually(t, "they are settled", func() bool {
		return s.Do("weir", "SELECT count(*) FROM weir.deferred WHERE state = 3") == "4"
	})
}

// Asking for the rules of entries that cannot be read ends with the first error: the leases of the
// sound ones of the same claim run meanwhile.
func TestDamagedWithoutRules(t *testing.T) {
	t.Parallel()
	s, log := postgrestest.Start(t), new(testkit.Log)
	q := openQueue(t, Config{URL: s.URL("weir", "weir"), Log: log.Logger()})
	for _, line := range []string{"a", "b", "c", "sound"} {
		deferredtest.PutAccepted(t, q, deferredtest.NewEntry(line))
	}
	s.Do("weir", "UPDATE weir.deferred SET about = 'x' WHERE seq < (SELECT max(seq) FROM weir.deferred)")
	s.Do("weir", `CREATE SEQUENCE weir.asked; CREATE OR REPLACE FUNCTION weir.deferred_list_1(which text, chosen int8, behind int8, most int8, OUT entries weir.deferred_entry_1[])
		LANGUAGE plpgsql AS 'BEGIN PERFORM nextval(''weir.asked''); RAISE ''not now''; END'`)
	claimed := 0
	testkit.Eventually(t, "all are claimed or given up", func() bool {
		c, _, err := q.Claim(t.Context(), time.Now(), 10)
		if err != nil {
			t.Error(err)
		}
		claimed += len(c)
		return claimed+q.Stats().Unreadable >= 4
	})
	want := deferred.GivenUpCounts{{To: deferred.Failed}: 3}
	if given := q.Stats().GivenUp; claimed != 1 || !maps.Equal(given, want) || log.Count("cannot be read") != 3 {
		t.Errorf("%d are claimed, given up: %v, want %v\n%s", claimed, given, want, log)
	}
	if asked := s.Do("weir", "SELECT last_value FROM weir.asked WHERE is_called"); asked != "1" {
		t.Errorf("asked %s times for a rule", asked)
	}
}
