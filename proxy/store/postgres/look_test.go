package postgres

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"weir/internal/program/metric"
	"weir/internal/test/testkit"
	"weir/proxy/store/lane"
	"weir/proxy/store/postgres/postgrestest"
)

// What is seen of a database: sizes, a transaction that somebody has left open there and no
// other, tables of others; and without the right to see it no transaction.
func TestLook(t *testing.T) {
	t.Parallel()
	s, b := newWorld(t)
	admit(t, b)
	look := func() *snapshot { t.Helper(); return testkit.Must(b.look(background))(t) }
	if seen := look(); seen.bytes == 0 || seen.oldest != 0 || !seen.visible || seen.others != 0 {
		t.Errorf("an empty database: %+v", seen)
	}
	s.Do("postgres", "CREATE TABLE theirs (n int)")
	// in this order: a transaction ends a while after its connection
	for _, database := range []string{"postgres", "weir"} {
		counts := database == "weir"
		conn := testkit.Must(pgconn.Connect(background, s.URL("weir", database)))(t)
		if _, err := conn.Exec(background,
			"BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pg_class").ReadAll(); err != nil {
			t.Fatal(err)
		}
		if seen := look(); (seen.oldest > 0) != counts || (seen.pid == int32(conn.PID())) != counts {
			t.Errorf("with a transaction in %s: %+v", database, seen)
		}
		_ = conn.Close(background)
	}
	testkit.Eventually(t, "it has ended", func() bool { return look().oldest == 0 })
	for range 20 {
		admit(t, b)
	}
	testkit.Eventually(t, "dead rows are counted", func() bool {
		admit(t, b)
		s.Do("weir", "ANALYZE weir.keys")
		return look().dead > 0
	})
	s.Do("weir", "CREATE TABLE public.orders (n int); CREATE ROLE plain LOGIN; GRANT USAGE ON SCHEMA weir TO plain")
	if seen := look(); seen.others != 1 || seen.example != "public.orders" {
		t.Errorf("with a table of others: %+v", seen)
	}
	b.monitor.reportedOthers = true // they are told
	if seen := look(); seen.others != 0 || seen.bytes == 0 {
		t.Errorf("tables that were told are counted again: %+v", seen)
	}
	plain := openBackend(t, Config{URL: s.URL("plain", "weir"), Manual: true})
	if seen := testkit.Must(plain.look(background))(t); seen.visible || seen.bytes == 0 || seen.others != 1 {
		t.Errorf("without the right: %+v", seen)
	}
}

// Warnings are logged once, or once a minute.
func TestWarn(t *testing.T) {
	var log bytes.Buffer
	b := &backend{cfg: Config{Config: lane.Config{Log: slog.New(slog.NewTextHandler(&log, nil))}}}
	now := time.Unix(1_000_000, 0)
	told := func(at time.Duration, s *snapshot) string {
		log.Reset()
		b.warn(now.Add(at), s)
		return log.String()
	}
	long := &snapshot{visible: true, oldest: 12_300_000, pid: 7}
	other := &snapshot{others: 2, example: "public.orders"}
	for i, test := range []struct {
		at    time.Duration
		s     *snapshot
		wants string // empty: nothing is told
	}{
		{0, nil, ""},
		{0, &snapshot{visible: true, oldest: 9_900_000}, ""},
		{0, &snapshot{oldest: 99_000_000}, ""},
		{0, long, "A transaction of 12 s in this database keeps dead rows alive\" pid=7"},
		{59 * time.Second, long, ""},
		{60 * time.Second, &snapshot{visible: true, oldest: 72_000_000}, "alive\" pid=prepared"},
		{61 * time.Second, other, "tables=2 such_as=public.orders"},
		{600 * time.Second, other, ""},
	} {
		if got := told(test.at, test.s); (got == "") != (test.wants == "") || !strings.Contains(got, test.wants) ||
			strings.Count(got, "\n") > 1 {
			t.Errorf("step %d: %q, want %q", i, got, test.wants)
		}
	}
}

// Gauges are there when something was seen, that of transactions when all are visible.
func TestGauges(t *testing.T) {
	var l monitor
	set := metric.New()
	l.register(set)
	text := func() string {
		var page strings.Builder
		set.Write(&page)
		return page.String()
	}
	if strings.Contains(text(), "\nratelimiter_postgres_") {
		t.Errorf("nothing was seen: %s", text())
	}
	l.last.Store(&snapshot{bytes: 1, dead: 2, oldest: 3_500_000})
	testkit.Contains(t, text(), "ratelimiter_postgres_table_bytes 1\n", "ratelimiter_postgres_dead_rows 2\n")
	if strings.Contains(text(), "\nratelimiter_postgres_oldest") {
		t.Error("an age that nobody may see")
	}
	l.last.Store(&snapshot{oldest: 3_500_000, visible: true})
	if !strings.Contains(text(), "ratelimiter_postgres_oldest_transaction_seconds 3.5\n") {
		t.Error(text())
	}
}

// A transaction that keeps a key locked is logged with its process before it counts as long.
func TestHolder(t *testing.T) {
	t.Parallel()
	s := postgrestest.Start(t)
	var log testkit.Log
	b := openBackend(t, Config{URL: s.URL("weir", "weir"), Config: lane.Config{Log: log.Logger()}})
	if err := b.Probe(background); err != nil {
		t.Fatal(err)
	}
	admit(t, b)
	conn := lockRows(t, s)
	b.cfg.Timeout = 100 * time.Millisecond
	want := fmt.Sprintf("pid=%d", conn.PID())
	testkit.Eventually(t, "it is told", func() bool {
		decide(b, 1, fixed(1000))
		lines := log.Lines("Another transaction has locked keys")
		return len(lines) > 0 && strings.Contains(lines[0], want) && strings.Contains(lines[0], "POSTGRES_TIMEOUT")
	})
	decide(b, 1, fixed(1000))
	if n := log.Count("Another transaction"); n != 1 {
		t.Errorf("it is told %d times", n)
	}
}
