package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/internal/test/testkit"
	"weir/proxy/store"
	"weir/proxy/store/postgres/postgrestest"
)

// newClient returns one that the test closes.
func newClient(t *testing.T, url string) *Client {
	t.Helper()
	c := testkit.Must(NewClient(ClientConfig{URL: url, Setting: "DEFER_URL", Connections: 1, Schema: "weir",
		Silence: testkit.Timeout}))(t)
	t.Cleanup(c.Close)
	return c
}

// What a function is given comes back, each value as what it is.
func TestClientCall(t *testing.T) {
	t.Parallel()
	s := postgrestest.Start(t)
	s.Do("weir", `CREATE SCHEMA weir; CREATE TYPE weir.pair AS (n int8, v bytea);
CREATE FUNCTION weir.echo(INOUT a int8, INOUT b int8[], INOUT c bool, INOUT d text, INOUT e bytea, INOUT f uuid, vs bytea[], us uuid[], ts text[], OUT g weir.pair[])
LANGUAGE sql AS $$ SELECT a, b, c, d, e, f, (SELECT array_agg(ROW(n, v)::weir.pair ORDER BY n) FROM unnest(vs) WITH ORDINALITY AS x (v, n) WHERE cardinality(us) = 2 AND us[2] IS NULL AND ts[1] = 'x') $$`)
	c := newClient(t, s.URL("weir", "weir"))
	args := func(values [][]byte) *Args {
		return new(Args).Int8(-7).Int8s([]int64{1, 2}).Bool(true).Text("").Bytes([]byte{0,
			1}).UUID(UUID{9}).BytesList(values).UUIDs([]UUID{{1}, {}}).Texts([]string{"x"})
	}
	f := NewFields(testkit.Must(c.Call(background, "echo", args([][]byte{{5}, nil, {}})))(t))
	if n := f.Int8(); n != -7 {
		t.Errorf("int8 %d", n)
	}
	if v := f.Int8s(); !slices.Equal(v, []int64{1, 2}) {
		t.Errorf("int8[] %v", v)
	}
	values := fmt.Sprintln(f.Bool(), f.Bytes(), f.Bytes(), f.UUID())
	if want := fmt.Sprintln(true, []byte{}, []byte{0, 1}, UUID{9}); values != want {
		t.Errorf("the values are %s, want %s", values, want)
	}
	var got [][]byte
	for i, r := range f.Records() {
		if n := r.Int8(); n != int64(i)+1 || r.Err != nil {
			t.Errorf("record %d has %d, %v", i, n, r.Err)
		}
		got = append(got, r.Bytes())
	}
	if len(got) != 3 || !bytes.Equal(got[0], []byte{5}) || len(got[1])+len(got[2]) != 0 || f.Err != nil {
		t.Errorf("records %v, %v", got, f.Err)
	}
	if f.Int8(); f.Err == nil {
		t.Error("there is a value after the last one")
	}
	f = NewFields(testkit.Must(c.Call(background, "echo", args(nil)))(t)[6:])
	if r := f.Records(); len(r) != 0 || f.Err != nil {
		t.Errorf("records of none: %v, %v", r, f.Err)
	}
}

// An error names the setting that the client has its URL from, and says whether anything can have
// been done.
func TestClientErrors(t *testing.T) {
	t.Parallel()
	s := postgrestest.Start(t)
	c := newClient(t, s.URL("weir", "weir"))
	_, err := c.Call(background, "missing", new(Args))
	if f := Classify(err); f.Permanent == nil || f.Permanent.Cause != store.NoSchema || !HadNoEffect(err) {
		t.Errorf("%+v: %v", f, err)
	}
	other := newClient(t, s.URL("weir", "missing"))
	if _, err = other.Call(background, "f", new(Args)); !strings.Contains(err.Error(),
		"create the database that DEFER_URL names") || !HadNoEffect(err) {
		t.Errorf("got %v, certain %t; want advice about the database of DEFER_URL, certain", err, HadNoEffect(err))
	}
	s.Do("weir",
		"CREATE SCHEMA weir; CREATE FUNCTION weir.sleep() RETURNS int8 LANGUAGE sql AS 'SELECT 1::int8 FROM pg_sleep(600)'")
	ctx, cancel := context.WithTimeout(background, 50*time.Millisecond)
	defer cancel()
	if _, err = c.Call(ctx, "sleep", new(Args)); !errors.Is(err, context.DeadlineExceeded) && !TimedOut(err) ||
		HadNoEffect(err) != TimedOut(err) {
		t.Errorf("late: %v", err)
	}
	version := &Migration{Schema: "weir", Function: "later", Version: 1,
		Script: "CREATE FUNCTION weir.later() RETURNS int4 LANGUAGE sql AS 'SELECT 1';"}
	for want := range int32(2) {
		if from, err := c.Migrate(background, version); from != want || err != nil {
			t.Errorf("migrated from %d, want %d: %v", from, want, err)
		}
	}
}

// The server ends what takes too long, before the client closes the connection, and keeps nothing
// of that limit; what fails when it is committed is an error. So also through a pooler and in an
// explicit transaction.
func TestClientLimit(t *testing.T) {
	t.Parallel()
	s := postgrestest.Start(t)
	s.Do("weir", `CREATE SCHEMA weir; CREATE FUNCTION weir.sleep() RETURNS int8 LANGUAGE sql AS 'SELECT 1::int8 FROM pg_sleep(600)';
CREATE FUNCTION weir.fails() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'late' USING ERRCODE = 'P0002'; END $$;
CREATE TABLE weir.checked (n int8); CREATE CONSTRAINT TRIGGER t AFTER INSERT ON weir.checked DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION weir.fails();
CREATE FUNCTION weir.store() RETURNS int8 LANGUAGE sql AS 'INSERT INTO weir.checked VALUES (1) RETURNING n'`)
	for name, server := range map[string]*postgrestest.Server{"server": s, "pooler": s.Pooler(1)} {
		for _, explicit := range []bool{false, true} {
			c := testkit.Must(NewClient(ClientConfig{URL: server.URL("weir", "weir"), Setting: "DEFER_URL", Connections: 1,
				Schema: "weir", Silence: 5 * time.Second}))(t)
			c.pool.explicit.Store(explicit)
			if _, err := c.Call(background, "sleep", new(Args)); !TimedOut(err) || !HadNoEffect(err) ||
				!strings.Contains(err.Error(), "why the server is slow") {
				t.Errorf("%s: %v", name, err)
			}
			if _, err := c.Call(background, "store", new(Args)); codeOf(err) != "P0002" {
				t.Errorf("%s: committed: %v", name, err)
			}
			if result, err := c.pool.query(background, "SHOW statement_timeout", nil); err != nil ||
				string(result.Rows[0][0]) != "0" {
				t.Errorf("%s: the limit is %v, %v", name, result, err)
			}
			c.Close()
		}
	}
	s.Do("weir", "ALTER ROLE weir SET statement_timeout = '1s'")
	s.Do("weir", "CREATE FUNCTION weir.wait() RETURNS int8 LANGUAGE sql AS 'SELECT 1::int8 FROM pg_sleep(2)'")
	if _, err := newClient(t, s.URL("weir", "weir")).Call(background, "wait", new(Args)); !TimedOut(err) {
		t.Errorf("beyond the limit of the role: %v", err)
	}
	if n := s.Do("weir", "SELECT count(*) FROM weir.checked"); n != "0" {
		t.Errorf("%s are stored", n)
	}
}
