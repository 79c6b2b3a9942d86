package postgres

import (
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"weir/internal/test/testkit"
	"weir/proxy/store"
	"weir/proxy/store/postgres/postgrestest"
)

// newMallory starts a server with a role mallory that may create schemas, and returns a function
// that runs SQL as that role, in which strike() makes it a superuser if a superuser runs it.
func newMallory(t *testing.T) (s *postgrestest.Server, as func(role, sql string) error) {
	t.Helper()
	s = postgrestest.Start(t)
	s.Do("weir", "CREATE ROLE mallory LOGIN; GRANT CREATE ON DATABASE weir TO mallory")
	as = func(role, sql string) error {
		conn := testkit.Must(pgconn.Connect(background, s.URL(role, "weir")))(t)
		defer conn.Close(background)
		_, err := conn.Exec(background, sql).ReadAll()
		return err
	}
	err := as("mallory", `CREATE SCHEMA evil; GRANT USAGE ON SCHEMA evil TO PUBLIC;
CREATE FUNCTION evil.strike() RETURNS bool LANGUAGE plpgsql AS $$ BEGIN
  BEGIN EXECUTE 'ALTER ROLE mallory SUPERUSER'; EXCEPTION WHEN OTHERS THEN NULL; END; RETURN true; END $$;
CREATE FUNCTION evil.strike_trigger() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM evil.strike(); RETURN NULL; END $$`)
	if err != nil {
		t.Fatal(err)
	}
	return s, as
}

// plain fails the test if hostile code has run with the rights of a superuser.
func plain(t *testing.T, s *postgrestest.Server, name string) {
	t.Helper()
	if s.Do("weir", "SELECT rolsuper FROM pg_roles WHERE rolname = 'mallory'") != "f" {
		t.Errorf("%s: mallory became superuser", name)
		s.Do("weir", "ALTER ROLE mallory NOSUPERUSER")
	}
}

// namesSQL reports whether an error names the SQL to run, and does not advise to drop a schema, with
// which all limits and deferred requests would be lost.
func namesSQL(err error) bool {
	return strings.Contains(err.Error(), "the SQL that proxy -postgres-schema prints") &&
		!strings.Contains(err.Error(), "drop")
}

// The error for a role that may not replace what belongs to weir_owner or a superuser names who may.
func TestOldVersion(t *testing.T) {
	t.Parallel()
	s, _ := newMallory(t)
	sql := InstallScript("weir", Schema("weir", false))
	for owner, told := range map[string]string{"weir_owner": "as a superuser or a role with CREATEROLE",
		"weir": "as a superuser"} {
		s.Do("weir", sql)
		s.Do("weir", "CREATE OR REPLACE FUNCTION weir.version() RETURNS int4 LANGUAGE sql AS 'SELECT 6'; ALTER "+
			"SCHEMA weir OWNER TO "+owner+
			"; GRANT USAGE ON SCHEMA weir TO mallory; GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA weir TO mallory")
		want := `schema "weir" belongs to role ` + owner + ": run the SQL that proxy -postgres-schema prints, " + told
		err := openBackend(t, Config{URL: s.URL("mallory", "weir")}).Probe(background)
		if f, ok := errors.AsType[*store.MisconfiguredError](err); !ok || f.Cause != store.Untrusted ||
			!strings.Contains(err.Error(), want) || !namesSQL(err) {
			t.Errorf("a proxy finds %v, want %q", err, want)
		}
		s.Do("weir", sql)
		if err := openBackend(t, Config{URL: s.URL("mallory", "weir")}).Probe(background); err != nil {
			t.Errorf("after the advice: %v", err)
		}
		s.Do("weir", "DROP SCHEMA weir CASCADE; DROP ROLE weir_owner")
	}
}

// What another role has prepared is not taken over, whether an administrator runs the SQL or a
// proxy of a superuser does, and nothing of it is run.
func TestPrepared(t *testing.T) {
	t.Parallel()
	s, as := newMallory(t)
	const shared = "CREATE SCHEMA weir; GRANT ALL ON SCHEMA weir TO mallory"
	version := "CREATE FUNCTION weir.version() RETURNS int4 LANGUAGE plpgsql AS $$ BEGIN PERFORM " +
		"evil.strike(); RETURN " + strconv.Itoa(schemaVersion) + "; END $$;"
	table := "CREATE TABLE weir.documents (name text PRIMARY KEY, version int8, body bytea); " +
		"CREATE TRIGGER t BEFORE INSERT ON weir.documents EXECUTE FUNCTION evil.strike_trigger(); "
	for _, test := range []struct{ name, admin, mallory, told string }{
		{"a schema", "", "CREATE SCHEMA weir", `schema "weir" belongs to role mallory`},
		{"a schema with a version", "", "CREATE SCHEMA weir; GRANT ALL ON SCHEMA weir TO PUBLIC;" + version,
			`schema "weir" belongs to role mallory`},
		{"a version", shared, version, "routine weir.version() belongs to role mallory"},
		{"a function", shared, "CREATE FUNCTION weir.now_1(int4) RETURNS int8 LANGUAGE sql AS 'SELECT 1::int8 " +
			"WHERE evil.strike()'", "routine weir.now_1(integer) belongs to role mallory"},
		{"a table", shared, table, "table weir.documents belongs to role mallory"},
		{"a view", shared, "CREATE VIEW weir.keys AS SELECT evil.strike()", "table weir.keys belongs to role mallory"},
		{"a type", shared, "CREATE DOMAIN weir.settled_1 AS int8 CHECK (evil.strike())",
			"type weir.settled_1 belongs to role mallory"},
	} {
		if test.admin != "" {
			s.Do("weir", test.admin)
		}
		if err := as("mallory", test.mallory); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Try("weir", InstallScript("weir", Schema("weir", false))); codeOf(err) != codeUntrusted ||
			!strings.Contains(err.Error(), test.told) {
			t.Errorf("%s: the SQL ends with %v, want %q", test.name, err, test.told)
		} else if !namesSQL(err) {
			t.Errorf("%s: the SQL ends with the advice of %v", test.name, err)
		}
		for _, manual := range []bool{false, true} {
			b := openBackend(t, Config{URL: s.URL("weir", "weir"), Manual: manual})
			err := b.Probe(background)
			if f, ok := errors.AsType[*store.MisconfiguredError](err); !ok || !manual && f.Cause != store.Untrusted ||
				!strings.Contains(err.Error(), "POSTGRES_SCHEMA") && !manual {
				t.Errorf("%s: a proxy finds %v", test.name, err)
			} else if !namesSQL(err) {
				t.Errorf("%s: a proxy advises: %v", test.name, err)
			}
		}
		plain(t, s, test.name)
		if n := s.Do("weir", "SELECT count(*) FROM pg_proc WHERE proname = 'take_1'"); n != "0" {
			t.Errorf("%s: functions were created", test.name)
		}
		s.Do("weir", "DROP SCHEMA weir CASCADE")
	}
}

// A role with rights, or one that others can become, does not own functions.
func TestOwnerRole(t *testing.T) {
	t.Parallel()
	s, _ := newMallory(t)
	sql := InstallScript("weir", Schema("weir", false))
	for role, told := range map[string]string{
		"CREATE ROLE weir_owner LOGIN":                                         "can log in, or has rights of its own",
		"CREATE ROLE weir_owner SUPERUSER":                                     "can log in, or has rights of its own",
		"CREATE ROLE weir_owner CREATEROLE":                                    "can log in, or has rights of its own",
		"CREATE ROLE weir_owner; GRANT pg_signal_backend TO weir_owner":        "is a member of another role",
		"CREATE ROLE weir_owner; GRANT weir_owner TO mallory":                  "has the member mallory",
		"CREATE ROLE weir_owner":                                               "",
		"CREATE ROLE weir_owner; GRANT weir_owner TO weir; CREATE SCHEMA weir": "",
	} {
		s.Do("weir", role)
		switch _, err := s.Try("weir", sql); {
		case told == "" && err != nil, told != "" && (codeOf(err) != codeUntrusted || !strings.Contains(err.Error(), told)):
			t.Errorf("%s: %v, want %q", role, err, told)
		}
		s.Do("weir", "DROP SCHEMA IF EXISTS weir CASCADE; DROP ROLE weir_owner")
	}
}

// owners is the roles that own what is in schema weir.
func owners(s *postgrestest.Server) string {
	return s.Do("weir", `SELECT string_agg(DISTINCT owner::regrole::text, ' ') FROM (
SELECT relowner FROM pg_class WHERE relnamespace = 'weir'::regnamespace UNION ALL SELECT proowner FROM pg_proc WHERE pronamespace = 'weir'::regnamespace
UNION ALL SELECT typowner FROM pg_type WHERE typnamespace = 'weir'::regnamespace UNION ALL SELECT nspowner FROM pg_namespace WHERE nspname = 'weir') o (owner)`)
}

// Whoever may create roles can run the SQL, again too. What a proxy creates belongs to its role,
// unless that is a superuser.
func TestOwners(t *testing.T) {
	t.Parallel()
	s, as := newMallory(t)
	s.Do("weir", "CREATE ROLE dba LOGIN CREATEROLE; GRANT CREATE ON DATABASE weir TO dba")
	sql := InstallScript("weir", Schema("weir", false))
	if err := as("mallory", sql); codeOf(err) != codeNoRight {
		t.Errorf("of a role that may not create roles the SQL ends with %v", err)
	}
	for range 2 {
		if err := as("dba", sql); err != nil {
			t.Fatal(err)
		}
	}
	if got := owners(s); got != "weir_owner" {
		t.Errorf("an administrator's belong to %s", got)
	}
	for role, want := range map[string]string{"weir": "weir_owner", "mallory": "mallory"} {
		s.Do("weir", "DROP SCHEMA weir CASCADE")
		b := openBackend(t, Config{URL: s.URL(role, "weir")})
		if err := b.Probe(background); err != nil {
			t.Fatal(err)
		}
		admit(t, b)
		if got := owners(s); got != want {
			t.Errorf("what a proxy of %s creates belongs to %s, want %s", role, got, want)
		}
		b.Close()
	}
}

// Rights with which a role could add code to the schema end when the SQL is run, and code that
// was added is not left there.
func TestRightsRevoked(t *testing.T) {
	t.Parallel()
	s, as := newMallory(t)
	sql := InstallScript("weir", Schema("weir", false))
	s.Do("weir", sql)
	const granted = "GRANT ALL ON SCHEMA weir TO mallory WITH GRANT OPTION; GRANT ALL ON ALL TABLES IN SCHEMA " +
		"weir TO mallory, PUBLIC"
	s.Do("weir", granted)
	if err := as("mallory",
		"CREATE TRIGGER t BEFORE INSERT ON weir.keys EXECUTE FUNCTION evil.strike_trigger()"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Try("weir", sql); codeOf(err) != codeUntrusted ||
		!strings.Contains(err.Error(), "table weir.keys has the trigger t") {
		t.Errorf("with a trigger: %v", err)
	}
	s.Do("weir", "DROP TRIGGER t ON weir.keys")
	s.Do("weir", sql)
	if got := s.Do("weir", "SELECT has_schema_privilege('mallory', 'weir', 'CREATE') OR has_table_privilege('mallory', "+
		"'weir.keys', 'TRIGGER')"); got != "f" {
		t.Errorf("mallory may create something in the schema: got %s, want f", got)
	}
	if got := s.Do("weir", "SELECT has_schema_privilege('mallory', 'weir', 'USAGE') AND has_table_privilege('mallory', "+
		"'weir.keys', 'SELECT')"); got != "t" {
		t.Errorf("mallory has the other rights: got %s, want t", got)
	}
}

// Statements of a proxy mean what they say, whatever others have created in schema public.
func TestPublicFunctions(t *testing.T) {
	t.Parallel()
	s, as := newMallory(t)
	s.Do("weir", "GRANT CREATE ON SCHEMA public TO mallory")
	err := as("mallory", `CREATE FUNCTION public.pg_has_role(text, text) RETURNS bool LANGUAGE sql AS 'SELECT evil.strike()';
CREATE FUNCTION public.differs(name, name) RETURNS bool LANGUAGE sql AS 'SELECT evil.strike()';
CREATE OPERATOR public.!~ (FUNCTION = public.differs, LEFTARG = name, RIGHTARG = name);
CREATE FUNCTION public.min(text) RETURNS text LANGUAGE sql AS 'SELECT evil.strike()::text'`)
	if err != nil {
		t.Fatal(err)
	}
	b := openBackend(t, Config{URL: s.URL("weir", "weir")})
	if err := b.Probe(background); err != nil {
		t.Fatal(err)
	}
	if _, err := b.look(background); err != nil {
		t.Error(err)
	}
	plain(t, s, "looking at the database")
}
