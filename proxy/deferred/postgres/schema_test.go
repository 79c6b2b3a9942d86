package postgres

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"weir/proxy/deferred"
	"weir/proxy/deferred/deferredtest"
	"weir/proxy/store/postgres"
	"weir/proxy/store/postgres/postgrestest"
)

// The SQL may be run again, and a role that may only execute functions can use the queue and
// nothing else.
func TestSchema(t *testing.T) {
	t.Parallel()
	s := postgrestest.Start(t)
	for range 2 {
		s.Do("weir", postgres.InstallScript("q", Schema("q")))
	}
	s.Do("weir", "CREATE ROLE plain LOGIN; GRANT USAGE ON SCHEMA q TO plain; GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA "+
		"q TO plain; CREATE ROLE stranger LOGIN; GRANT USAGE ON SCHEMA q TO stranger")
	for role, want := range map[string]string{"plain": "memory", "stranger": "permission denied"} {
		got, err := s.Try("weir", "SET ROLE "+role+"; SELECT durability FROM q.deferred_open_1('plain')")
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, want) { // the server of tests has fsync=off
			t.Errorf("%s is told %q, want %q", role, got, want)
		}
	}
	for _, sql := range []string{"SELECT FROM q.deferred", "DELETE FROM q.lines",
		"UPDATE q.deferred_about SET value = ''"} {
		if _, err := s.Try("weir", "SET ROLE plain; "+sql); err == nil ||
			!strings.Contains(err.Error(), "permission denied") {
			t.Errorf("%s: %v", sql, err)
		}
	}
	s.Do("weir", "ALTER DATABASE weir SET default_transaction_read_only = on")
	if _, err := s.Try("weir", "SELECT q.deferred_open_1('plain')"); err == nil ||
		!strings.Contains(err.Error(), "25006") {
		t.Errorf("of a database that is read-only: %v", err)
	}
}

// What version 1 has left is used by this one.
func TestMigrated(t *testing.T) {
	t.Parallel()
	s := postgrestest.Start(t)
	s.Do("weir", postgres.InstallScript("weir", Schema("weir")))
	s.Do("weir", "ALTER TABLE weir.deferred DROP COLUMN parallel; DROP FUNCTION weir.deferred_claim_3; REASSIGN OWNED "+
		"BY weir_owner TO weir; "+
		"CREATE OR REPLACE FUNCTION weir.deferred_version() RETURNS int4 LANGUAGE sql AS 'SELECT 1'")
	q := openQueue(t, Config{URL: s.URL("weir", "weir")})
	deferredtest.PutAccepted(t, q, deferredtest.NewEntry("shop"))
	deferredtest.RequireClaims(t, q, time.Now().Add(time.Second), 1)
	if n := s.Do("weir", "SELECT count(*) FROM pg_proc WHERE pronamespace = 'weir'::regnamespace AND proowner <> "+
		"'weir_owner'::regrole"); n != "0" {
		t.Errorf("%s functions run with the rights of a superuser", n)
	}
}

// Final entries that an earlier version has stored count in the shares of their clients.
func TestMigratedKept(t *testing.T) {
	t.Parallel()
	s := postgrestest.Start(t)
	cfg := Config{URL: s.URL("weir", "weir"), callersClock: true}
	q := openQueue(t, cfg)
	size := int64(0)
	for range 3 {
		e := deferredtest.NewEntry("shop")
		size += e.Size()
		deferredtest.PutAccepted(t, q, e)
		c := deferredtest.RequireClaims(t, q, time.Now().Add(time.Second), 1)
		if err := deferredtest.Settle(t, q, c[0], deferred.Failed); err != nil {
			t.Fatal(err)
		}
	}
	_ = q.Close()
	s.Do("weir", "ALTER TABLE weir.deferred_clients DROP COLUMN kept_entries, DROP COLUMN kept_bytes; DELETE FROM "+
		"weir.deferred_clients; "+
		"CREATE OR REPLACE FUNCTION weir.deferred_version() RETURNS int4 LANGUAGE sql IMMUTABLE AS 'SELECT 3'")
	_ = openQueue(t, cfg).Close()
	if got, want := s.Do("weir", "SELECT kept_entries || '|' || kept_bytes FROM weir.deferred_clients"),
		fmt.Sprintf("3|%d", size); strings.TrimSpace(got) != want {
		t.Errorf("the client has %s, want %s", got, want)
	}
}
