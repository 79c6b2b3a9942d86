package main

import (
	"bytes"
	"slices"
	"strings"
	"syscall"
	"testing"

	"weir/internal/testkit"
	"weir/proxy/store/postgres/postgrestest"
)

// queueIn is an environment with another queue.
func queueIn(env []string, url string) []string {
	env = slices.Clone(env)
	env[slices.Index(env, "DEFER_URL")+1] = url
	return env
}

// What one proxy has stored any other tells of and delivers, once and in order, also when the
// first is killed.
func TestDeferralPostgres(t *testing.T) {
	s, target := postgrestest.Start(t, "-c", "fsync=on"), newShop(t)
	env := queueIn(deferring(t, target, "algorithm: token, capacity: 1, fillRate: 20", "reserve: 0"), s.URL("weir", "weir"))
	a, b := launch(t, env), launch(t, env)
	a.Logged("INFO Deferred - Opened queue waiting=0 dead=0 durability=fsync")
	ids := a.keeps(4)
	for _, id := range ids {
		b.becomes(id, "waiting")
	}
	testkit.Eventually(t, "an order is stored", func() bool {
		status, text := b.call("POST /orders X-Shop=a "+async, "last")
		if status == 202 && !strings.Contains(text, `"durability":"fsync","scope":"shared"`) {
			t.Errorf("promised %s", text)
		}
		return status == 202
	})
	before := len(target.got())
	_ = a.Process.Signal(syscall.SIGKILL)
	a.Status()
	b.goesOn(ids)
	testkit.Eventually(t, "all are delivered", func() bool { return len(target.got()) >= before+5 })
	if got := target.got()[before:]; !slices.Equal(got, []string{"kept0", "kept1", "kept2", "kept3", "last"}) {
		t.Errorf("delivered %q", got)
	}
}

// While PostgreSQL is unavailable, which keeps limits too, what would be stored is refused as without a
// queue; nothing that was accepted is lost.
func TestDeferralPostgresKilled(t *testing.T) {
	s, target := postgrestest.Start(t), newShop(t)
	env := queueIn(deferring(t, target, "algorithm: token, capacity: 1, fillRate: 5", "reserve: 0"), "postgres:")
	p := launch(t, append(env, "POSTGRES_URL", s.URL("weir", "weir"), "POSTGRES_TIMEOUT", "2s", "STORE_FAILURE_MODE", "local"))
	ids := p.keeps(3)
	s.Signal(syscall.SIGKILL)
	const lost, back = "ERROR Deferred - Queue cannot be written, refusing instead reason=", "INFO Deferred - Queue writes again"
	testkit.Eventually(t, "an order is refused", func() bool {
		status, text := p.call("POST /orders X-Shop=a "+async, "more")
		if status != 201 && status != 429 {
			t.Errorf("answered %d %s", status, text)
		}
		return status == 429
	})
	p.Logged(lost)
	s.Restart()
	p.Logged(back)
	p.stored("", "afterwards")
	p.goesOn(ids)
	if a, b := len(p.Log.Lines(lost)), len(p.Log.Lines(back)); a != 1 || b != 1 {
		t.Errorf("told %d times that it fails and %d times that it works", a, b)
	}
}

// A queue that refuses us for good ends the start with one line, which names its setting.
func TestDeferralPostgresMisconfigured(t *testing.T) {
	s := postgrestest.Start(t)
	s.Do("weir", "CREATE ROLE plain LOGIN")
	env := deferring(t, newShop(t), "algorithm: fixed, limit: 1, window: 1", "")
	for _, test := range []struct {
		status    int
		url, told string
	}{
		{2, s.URL("plain:s3cret", "weir"), "grant CREATE on the database to the user of DEFER_URL"},
		{2, s.URL("weir:s3cret", "missing"), "create the database that DEFER_URL names"},
		{2, "postgres://weir:s3cret@localhost", "DEFER_URL"},
	} {
		cmd := program(t, queueIn(env, test.url))
		var told bytes.Buffer
		cmd.Stderr = &told
		_ = cmd.Run() // the status tells
		if text := told.String(); cmd.ProcessState.ExitCode() != test.status || !strings.Contains(text, test.told) || strings.Count(text, "\n") != 1 || strings.Contains(text, "s3cret") {
			t.Errorf("status %d, %q, want %d and one line with %q", cmd.ProcessState.ExitCode(), text, test.status, test.told)
		}
	}
}
