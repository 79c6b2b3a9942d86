package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"weir/internal/test/testkit"
	"weir/proxy/store/postgres/postgrestest"
)

// printedSchema returns what the flag -postgres-schema prints.
func printedSchema(t *testing.T, env ...string) string {
	t.Helper()
	sql, _ := testkit.RequireExit(t, program(t, env, "-postgres-schema"), 0)
	return sql
}

// hostileSQL is run by the documented role in its session, with %s for a schema: code that makes
// the role a superuser if it runs with other rights than the role's own, and reports that it did.
// Domains and operators with names of the built-in ones run it too.
const hostileSQL = `
CREATE FUNCTION %[1]s.strike() RETURNS pg_catalog.bool LANGUAGE plpgsql AS $$ BEGIN
  IF current_user <> session_user THEN
    RAISE NOTICE 'hostile code runs as %%', current_user;
    BEGIN
      EXECUTE 'ALTER ROLE proxies SUPERUSER';
    EXCEPTION WHEN OTHERS THEN NULL;
    END;
  END IF;
  RETURN true;
END $$;
CREATE FUNCTION %[1]s.strike_trigger() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM %[1]s.strike(); RETURN NULL; END $$;
CREATE FUNCTION %[1]s.strike_operator(bigint, bigint) RETURNS pg_catalog.bool LANGUAGE sql AS 'SELECT %[1]s.strike()';
DO $do$ DECLARE name pg_catalog.text; BEGIN
  FOREACH name IN ARRAY ARRAY['int8', 'int4', 'text', 'bool', 'bytea', 'uuid', 'tid', 'regclass', 'timestamptz', 'interval'] LOOP
    EXECUTE format('CREATE DOMAIN %[1]s.%%1$I AS pg_catalog.%%1$I CHECK (%[1]s.strike())', name);
  END LOOP;
  FOREACH name IN ARRAY ARRAY['=', '<>', '<', '<=', '>', '>=', '+', '-', '*', '/', '&', '>>', '<<', '||'] LOOP
    EXECUTE format('CREATE OPERATOR %[1]s.%%s (FUNCTION = %[1]s.strike_operator, LEFTARG = bigint, RIGHTARG = bigint)', name);
  END LOOP;
END $do$;`

// namesakesSQL returns statements that create, in schema $1, tables with triggers, a further table, types,
// sequences and functions with the names of those in schema weir.
const namesakesSQL = `
SELECT format('CREATE TABLE %1$s.%2$I (%3$s); CREATE TRIGGER t BEFORE INSERT OR UPDATE OR DELETE ON %1$s.%2$I EXECUTE FUNCTION %1$s.strike_trigger()',
    '@', c.relname, (SELECT string_agg(format('%I %s', a.attname, format_type(a.atttypid, a.atttypmod)), ', ')
      FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped)) FROM pg_class c
  WHERE c.relnamespace = 'weir'::regnamespace AND c.relkind = 'r'
UNION ALL SELECT 'CREATE TABLE @.hostile (name bigint, expires bigint); INSERT INTO @.hostile VALUES (0, 0); CREATE TRIGGER t BEFORE DELETE ON @.hostile EXECUTE FUNCTION @.strike_trigger()'
UNION ALL SELECT format('CREATE SEQUENCE @.%I', c.relname) FROM pg_class c WHERE c.relnamespace = 'weir'::regnamespace AND c.relkind = 'S'
UNION ALL SELECT format('CREATE DOMAIN @.%1$I AS weir.%1$I CHECK (@.strike())', c.relname) FROM pg_class c WHERE c.relnamespace = 'weir'::regnamespace AND c.relkind = 'c'
UNION ALL SELECT format('CREATE FUNCTION @.%I(%s) RETURNS %s LANGUAGE plpgsql AS ''BEGIN PERFORM @.strike(); END''',
    p.proname, pg_get_function_identity_arguments(p.oid), pg_get_function_result(p.oid)) FROM pg_proc p
  WHERE p.pronamespace = 'weir'::regnamespace AND NOT p.prosecdef`

// entryCalls are, for each function that runs with the rights of its owner, calls that succeed in this order.
var entryCalls = []struct{ function, arguments string }{
	{"take_1", `0, 9000, '{1,2,3,4,5,6}', '{"\\x01","\\x02","\\x03","\\x04","\\x05","\\x06"}', '{}',
		'{1,3,1,1,1,60000000,1,0,0,0,0,0, 1,3,2,2,1,60000000,1,0,0,0,0,0, 1,3,3,3,1,1000,1,0,0,0,0,0, 1,3,4,4,1,60000000,1,0,0,0,0,0,
		  1,3,5,5,1,1000,1,1,0,0,0,0, 1,3,6,6,1,1000,1,0,0,9000,0,0}'`},
	{"take_1", `0, 9000, '{1,3,6}', '{"\\x01","\\x03","\\x06"}', '{1,1,60000000,1,1,0, 2,1,1000,1,1,0, 3,1,1000,1,1,0}', '{2,2,1,1,2,60000000,1,0,0,0,9,1, 3,3,2,9,1,0,0,0,9,1}'`},
	{"take_one_1", `0, 9000, 3, '\x03', 216172782113784808, 0, 1, 1, 1, 9000, 9000, '{1,1,1,3,1,1000,1,0,0,0,0,0}'`},
	{"take_many_1", `0, 9000, '{3,7}', '{"\\x03","\\x07"}', '{216172782113784808,0,1,1,1,9000,9000,1, 216172782113784808,0,1,1,1,9000,9000,1}',
		'{1,1,1,3,1,1000,1,0,0,0,0,0, 1,1,1,3,1,1000,1,0,0,0,0,0}', '{}', '{}', '{}'`},
	{"add_1", `0, 9000, 1, '\x02', 1, 'edits'`},
	{"add_1", `0, 9000, 1, '\x04', 1, 'edits'`},
	{"forget_1", `0, 9000, 1, '\x03', 'edits'`},
	{"marks_1", `'{edits,other}'`},
	{"write_1", `'doc', 0, 'body'`},
	{"write_1", `'doc', 1, 'body'`},
	{"document_1", `'doc'`},
	{"lease_1", `'lease', 'me', 60000`},
	{"lease_1", `'lease', 'me', 0`},
	{"probe_1", `'probe'`},
	{"sweep_1", `'keys', 0, 8`},
	{"sweep_1", `'log', 0, 8`},
	{"epoch_9", `'\x05'`},
	{"epoch_9", `'\x05'`},
	{"deferred_open_1", `'plain'`},
	{"deferred_put_1", `0, 1, 'plain', '{9,9999,9,9999}', '{@}', '{r}', '{0}', '{@}', '{@}', '{@}', '{@}', '{1,1,0,9000000000000000,0,1,1,0,1,0}', '{a}', '{a}'`},
	{"deferred_put_1", `0, 1, 'plain', '{9,9999,9,9999}', '{@}', '{r}', '{0}', '{@}', '{@}', '{@}', '{@}', '{1,1,0,9000000000000000,0,1,1,0,1,0}', '{a}', '{a}'`},
	{"deferred_list_1", `'r', 0, 0, 9`},
	{"deferred_claim_3", `0, 0, 1, 'plain', 9, 60000000, 60000000, 7, '{}', '{}'`},
	{"deferred_renew_1", `0, 60000000, '{@}', '{7}'`},
	{"deferred_claim_3", `0, 0, 1, 'plain', 9, 60000000, 60000000, 8, '{7}', '{}'`},
	{"deferred_settle_1", `0, 1, '{@}', '{8}', '{3,0,1,-1,-1,60000000}', '{NULL}', '{NULL}', '{NULL}'`},
	{"deferred_edit_2", `0, 1, 1, 60000000, '{@}', '', 0, 9, '', '', 0`},
	{"deferred_edit_1", `0, 1, 0, 60000000, '{}', 'r', 0, 9`},
	{"deferred_edit_2", `0, 1, 0, 60000000, '{}', 'r', 0, 9, 'a', 'b', 2`},
	{"deferred_evict_1", `0, 1, 0`},
	{"deferred_edit_2", `0, 1, 2, 60000000, '{@}', '', 0, 9, '', '', 0`},
	{"deferred_pause_1", `'r', true`},
	{"deferred_read_1", `'@'`},
	{"deferred_known_1", `'@'`},
	{"deferred_bar_1", `0, 60000000, '{@}'`},
	{"deferred_stats_1", ``},
}

// An attacker is a session of the documented role.
type attacker struct {
	*pgconn.PgConn
	t      *testing.T
	struck []string // notices of hostile code that ran with other rights than its own
}

func newAttacker(t *testing.T, s *postgrestest.Server) *attacker {
	t.Helper()
	a := &attacker{t: t}
	cfg := testkit.Must(pgconn.ParseConfig(s.URL("proxies", "weir")))(t)
	cfg.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) {
		if strings.Contains(n.Message, "hostile") {
			a.struck = append(a.struck, n.Message)
		}
	}
	a.PgConn = testkit.Must(pgconn.ConnectConfig(context.Background(), cfg))(t)
	t.Cleanup(func() { _ = a.Close(context.Background()) })
	return a
}

func (a *attacker) try(sql string) error {
	_, err := a.Exec(context.Background(), sql).ReadAll()
	return err
}

func (a *attacker) do(sql string) {
	a.t.Helper()
	if err := a.try(sql); err != nil {
		a.t.Fatalf("%s: %v", sql, err)
	}
}

// column runs SQL as superuser, and returns the first column.
func column(t *testing.T, s *postgrestest.Server, sql string) []string {
	t.Helper()
	if text := s.Do("weir", "SET search_path = pg_catalog; SELECT string_agg(line, chr(1)) FROM ("+sql+
		") all_of (line)"); text != "" {
		return strings.Split(text, "\x01")
	}
	return nil
}

// A role with the rights that the printed SQL lists, and with CREATE on the database, gets no
// others: whatever it has the functions find instead of tables, types, functions and operators,
// and whichever functions it has called before, none runs code of the role with other rights
// than the role's own.
func TestPostgresRoleGetsNoRights(t *testing.T) {
	s := postgrestest.Start(t)
	s.Do("weir", "CREATE ROLE proxies LOGIN; GRANT CREATE ON DATABASE weir TO proxies; SET ROLE proxies; CREATE SCHEMA "+
		"weir; CREATE TABLE weir.keys (name bytea)")
	if told := s.Psql("weir", printedSchema(t)); !strings.Contains(told, `ERROR:  schema "weir" belongs to role proxies`) {
		t.Errorf("where the role has prepared the schema, psql prints: %s", told)
	}
	s.Do("weir", "DROP TABLE weir.keys; DROP SCHEMA weir; DROP ROLE IF EXISTS weir_owner") // fails if anything was created
	for range 2 {
		if told := s.Psql("weir", printedSchema(t)); strings.Contains(told, "ERROR") {
			t.Error(told)
		}
	}
	s.Do("weir", "GRANT USAGE ON SCHEMA weir TO proxies; GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA weir TO proxies")
	namesakes := column(t, s, namesakesSQL)
	of := column(t, s, "SELECT proname FROM pg_proc WHERE pronamespace = 'weir'::regnamespace AND prosecdef")
	for _, name := range of {
		if !slices.ContainsFunc(entryCalls, func(c struct{ function, arguments string }) bool { return c.function == name }) {
			t.Errorf("%s runs with the rights of its owner, and is not tried", name)
		}
	}
	poison := column(t, s, "SELECT format('SELECT weir.%I(%s)', proname, array_to_string(array_fill('NULL'::text, "+
		"ARRAY[pronargs]), ',')) FROM pg_proc WHERE pronamespace = 'weir'::regnamespace ORDER BY prosecdef")
	for schema, path := range map[string]string{"pg_temp": "pg_temp, pg_catalog", "evil": "evil, pg_catalog, pg_temp"} {
		a := newAttacker(t, s)
		if schema != "pg_temp" {
			a.do("CREATE SCHEMA " + schema)
		}
		a.do(fmt.Sprintf(hostileSQL, schema))
		a.do(strings.ReplaceAll(strings.Join(namesakes, ";\n"), "@.", schema+"."))
		a.do("SET search_path = " + path)
		for _, call := range poison {
			_ = a.try(call) // most functions fail without arguments, after their declarations were evaluated
		}
		for _, c := range entryCalls {
			arguments := strings.ReplaceAll(c.arguments, "@", "11111111-1111-1111-1111-111111111111")
			if err := a.try("SELECT * FROM weir." + c.function + "(" + arguments + ")"); err != nil {
				t.Errorf("%s: %s(%s): %v", schema, c.function, arguments, err)
			}
		}
		for _, name := range []string{"hostile", "pg_temp.hostile", schema + ".hostile", "documents",
			`keys; ALTER ROLE proxies SUPERUSER`} {
			if a.try("SELECT * FROM weir.sweep_1('"+name+"', 0, 8)") == nil {
				t.Errorf("%s: sweep_1 accepts the table %s", schema, name)
			}
		}
		s.Do("weir", "DELETE FROM weir.keys; DELETE FROM weir.log; DELETE FROM weir.documents; DELETE FROM weir.deferred")
		if len(a.struck) > 0 {
			t.Errorf("%s: %d times, such as: %s", schema, len(a.struck), a.struck[0])
		}
	}
	if super := s.Do("weir", "SELECT rolsuper FROM pg_roles WHERE rolname = 'proxies'"); super != "f" {
		t.Errorf("the role is a superuser: got %s, want f", super)
	}
}
