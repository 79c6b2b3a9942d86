package main

import (
	"bytes"
	"strings"
	"syscall"
	"testing"

	"weir/internal/testkit"
	"weir/proxy/store/postgres/postgrestest"
)

// A PostgreSQL that is killed while requests come: all are admitted until it is back, and
// then it decides again.
func TestPostgresKilled(t *testing.T) {
	s := postgrestest.Start(t)
	p := launch(t, []string{"TARGET_URL", named(t), "POSTGRES_URL", s.URL("weir", "weir"), "POSTGRES_TIMEOUT", "2s", "EVENT_LOOPS", "1"})
	p.Logged("INFO PostgresClient - Schema migrated from=0 to=")
	p.gets("PUT /config/rules", 200, `"stored":true`, windows(`rules: [{id: x, key: ["header:X-A"], limit: {algorithm: sliding_log, limit: 1, window: C}}]`))
	p.gets("GET / X-A=1", 200, "")
	p.gets("GET / X-A=1", 429, `"rule":"x"`)
	s.Signal(syscall.SIGKILL)
	p.Logged("WARN PostgresClient - PostgreSQL connection lost, entering fail-open mode")
	for range 3 {
		p.gets("GET / X-A=1", 200, "")
	}
	s.Restart()
	p.Logged("INFO PostgresClient - PostgreSQL reconnected, resuming normal operation")
	testkit.Eventually(t, "it decides", func() bool {
		status, text := p.call("GET / X-A=2")
		return status == 429 && strings.Contains(text, `"rule":"x"`)
	})
	p.gets("GET /config/rules", 200, `"x"`)
}

// Settings that contradict each other, and a store that refuses us for good, end the start
// with one line, which never tells the password.
func TestMisconfiguredPostgres(t *testing.T) {
	s := postgrestest.Start(t)
	s.Do("weir", "CREATE ROLE plain LOGIN")
	s.Do("weir", "CREATE SCHEMA later; CREATE FUNCTION later.version() RETURNS int4 LANGUAGE sql AS 'SELECT 99'")
	for _, test := range []struct {
		status int
		told   string
		env    []string
	}{
		{1, "schema later has version 99", []string{"POSTGRES_URL", s.URL("weir:s3cret", "weir"), "POSTGRES_SCHEMA", "later"}},
		{2, "there is no such database", []string{"POSTGRES_URL", s.URL("weir:s3cret", "missing")}},
		{2, "the user lacks a right", []string{"POSTGRES_URL", s.URL("plain:s3cret", "weir")}},
		{1, "tables or functions are missing, or of another version: schema weir is missing: run", []string{"POSTGRES_URL", s.URL("weir:s3cret", "weir"), "POSTGRES_MIGRATE", "false"}},
		{2, "names no user", []string{"POSTGRES_URL", "postgres://weir:12/s3cret@localhost/weir"}},
		{2, "correct the parameters of POSTGRES_URL", []string{"POSTGRES_URL", s.URL("weir:s3cret", "weir") + "&ssl_mode=require"}},
		{2, "excludes REDIS_HOST", []string{"POSTGRES_URL", s.URL("weir:s3cret", "weir"), "REDIS_HOST", "localhost"}},
		{2, "does not begin with postgres://", []string{"POSTGRES_URL", "weir:s3cret@localhost"}},
		{2, "POSTGRES_SCHEMA", []string{"POSTGRES_URL", s.URL("weir:s3cret", "weir"), "POSTGRES_SCHEMA", "Weir"}},
	} {
		cmd := program(t, test.env)
		var told bytes.Buffer
		cmd.Stderr = &told
		_ = cmd.Run() // the status tells
		if text := told.String(); cmd.ProcessState.ExitCode() != test.status || !strings.Contains(text, test.told) || strings.Count(text, "\n") != 1 || strings.Contains(text, "s3cret") {
			t.Errorf("status %d, %q, want %d and one line with %q", cmd.ProcessState.ExitCode(), text, test.status, test.told)
		}
	}
}

// Settings of a store that is not used are told.
func TestPostgresSettingsWithoutURL(t *testing.T) {
	p := launch(t, []string{"TARGET_URL", named(t), "POSTGRES_TIMEOUT", "2s", "POSTGRES_DURABLE", "true"})
	for _, name := range []string{"POSTGRES_TIMEOUT", "POSTGRES_DURABLE"} {
		p.Logged("WARN Proxy - " + name + " has no effect while POSTGRES_URL is not set")
	}
}

// The SQL that is printed makes what a proxy needs that makes nothing itself.
func TestPostgresSchemaPrinted(t *testing.T) {
	s := postgrestest.Start(t)
	cmd := program(t, []string{"POSTGRES_SCHEMA", "limits"})
	cmd.Args = append(cmd.Args, "-postgres-schema")
	out := testkit.Must(cmd.Output())(t)
	s.Do("weir", string(out))
	s.Do("weir", "CREATE ROLE plain LOGIN; GRANT USAGE ON SCHEMA limits TO plain; GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA limits TO plain")
	p := launch(t, []string{"TARGET_URL", named(t), "POSTGRES_URL", s.URL("plain", "weir"), "POSTGRES_SCHEMA", "limits", "POSTGRES_MIGRATE", "false", "POSTGRES_TIMEOUT", "2s"})
	testkit.Eventually(t, "the proxy has found the store", func() bool {
		_, text := p.call("GET /actuator/health")
		return strings.Contains(text, `"mode":"postgres"`)
	})
}
